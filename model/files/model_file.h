// Reads and recognises networks in files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "kernels/ops.h"
#include "model/files/weights_file.h"
#include "model/networks/backbone.h"

namespace pfc {

/// The weights of a network, and the options that build it.
struct ModelFile {
  WeightsFile weights;
  /// network, embedding_size, height and width; for inference, one image at a time.
  BackboneOptions options;
};

/// Reads a file. Recognises the network and its embedding and image size by the names and shapes
/// of the tensors. Throws InputError as read_weights() does, and if the tensors are not exactly
/// those of a network.
ModelFile read_model(const std::filesystem::path& path);

/// Returns the metadata of a safetensors file with this network: the network's name, and how it
/// reads pixels unless that is the default. read_model() restores how it reads pixels; other
/// formats do not have this information.
std::map<std::string, std::string> metadata_of(const BackboneOptions& options);

/// Returns how the file's network reads pixels, from the file's metadata; the default if the
/// metadata do not say it. Throws InputError if the values are out of range.
PixelScale pixels_of(const WeightsFile& file);

/// Returns the network with these weights, for inference on `batch` images at a time, which it
/// reads as RGB (Backbone::read). Borrows `ops`; copies `model`.
std::unique_ptr<Backbone> make_backbone(Ops& ops, const ModelFile& model, std::int64_t batch);

}  // namespace pfc
