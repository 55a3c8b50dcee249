// Reads networks from files: safetensors files with arcface_torch's tensor names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/files/named_tensors.h"
#include "kernels/ops.h"
#include "model/networks/backbone.h"

namespace pfc {

/// In which order a network reads the colours of a pixel.
enum class ChannelOrder { kRgb, kBgr };

/// What a file of weights holds. The tensors may be views of the mapped file.
struct WeightsFile {
  std::string format;       ///< "safetensors"
  NamedTensors state_dict;  ///< of the network, in arcface_torch's names: F32; num_batches_tracked
                            ///< of every batch norm is I64 and 0 where the file lacks it
  NamedTensors others;      ///< what is no part of the network: "centres" [C, D]
  nlohmann::json about;     ///< what else the file says, as an object: {"network": "r50"}
};

/// A network that can be run.
struct ModelFile {
  WeightsFile weights;
  /// network, embedding_size, height and width; for inference, one image at a time.
  BackboneOptions options;
  /// Of the file. `weights` read RGB in any case: a reader of a BGR format reverses the channels of
  /// the first convolution.
  ChannelOrder channel_order = ChannelOrder::kRgb;
};

/// Reads a file of any known format. Throws InputError that names the file, and the tensor or
/// member. Does not check that the tensors are those of a network.
WeightsFile read_weights(const std::filesystem::path& path);

/// Reads a file and finds out the network, its embedding and image size from the names and shapes
/// of the tensors. Throws InputError as read_weights() does, and where the tensors are not exactly
/// those of a network.
ModelFile read_model(const std::filesystem::path& path);

/// The network with these weights, for inference on `batch` images at a time, which it reads as RGB
/// (Backbone::read). `ops` is borrowed; nothing of `model` is.
std::unique_ptr<Backbone> make_backbone(Ops& ops, const ModelFile& model, std::int64_t batch);

}  // namespace pfc
