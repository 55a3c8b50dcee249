// Reads the weights of networks from files of any known format.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "common/files/named_tensors.h"

namespace pfc {

/// The order in which a network reads the colours of a pixel.
enum class ChannelOrder { kRgb, kBgr };

/// Converts a convolution of RGB images to one of BGR images, and back. weights [out, 3, places].
void reverse_channels(std::span<float> weights, std::int64_t places);

/// The content of a file of weights. The tensors may be views of the mapped file.
struct WeightsFile {
  std::string format;  ///< "safetensors", "PyTorch", "ONNX"
  /// The network's tensors, under arcface_torch's names, or AdaFace's names with weights for BGR.
  /// They are F32, except num_batches_tracked of each batch norm: I64, and 0 if the file lacks it.
  NamedTensors state_dict;
  /// Tensors outside the network: "centres" [C, D] of pfc or AdaFace,
  /// "state_dict_softmax_fc/weight" of arcface_torch's checkpoint, "fc.weight" and "fc.bias" of
  /// torchvision's resnet.
  NamedTensors others;
  nlohmann::json about;  ///< other metadata of the file, as a JSON object: {"network": "r50"}
  ChannelOrder channel_order = ChannelOrder::kRgb;  ///< channel order of the file's network
};

/// Returns whether the tensors are those of torchvision's resnet.
bool is_torchvision(const NamedTensors& state_dict);

/// Reads safetensors files and those of torch.save(): a state dict alone (model.pt,
/// backbone.pth), arcface_torch's checkpoint_gpu_*.pt, and Lightning's checkpoints. Reads *.onnx
/// as read_onnx_state_dict() does. CVLface's model.pt needs its model.yaml in the same folder. Does
/// not check that the tensors are those of a network. Throws InputError that names the file, and
/// the tensor or member.
WeightsFile read_weights(const std::filesystem::path& path);

}  // namespace pfc
