// Reads networks from files, and finds out which they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "kernels/ops.h"
#include "model/files/weights_file.h"
#include "model/networks/backbone.h"

namespace pfc {

/// A network that can be run.
struct ModelFile {
  WeightsFile weights;
  /// network, embedding_size, height and width; for inference, one image at a time.
  BackboneOptions options;
};

/// Reads a file and finds out the network, its embedding and image size from the names and shapes
/// of the tensors. Throws InputError as read_weights() does, and where the tensors are not exactly
/// those of a network.
ModelFile read_model(const std::filesystem::path& path);

/// The network with these weights, for inference on `batch` images at a time, which it reads as RGB
/// (Backbone::read). `ops` is borrowed; nothing of `model` is.
std::unique_ptr<Backbone> make_backbone(Ops& ops, const ModelFile& model, std::int64_t batch);

}  // namespace pfc
