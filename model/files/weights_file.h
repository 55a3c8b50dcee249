// Reads the weights of networks from files of any known format.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "common/files/named_tensors.h"

namespace pfc {

/// What a file of weights holds. The tensors may be views of the mapped file.
struct WeightsFile {
  std::string format;       ///< "safetensors", "PyTorch", "ONNX"
  NamedTensors state_dict;  ///< of the network, in arcface_torch's names: F32; num_batches_tracked
                            ///< of every batch norm is I64 and 0 where the file lacks it
  NamedTensors others;      ///< what is no part of the network: "centres" [C, D] of a file of pfc,
                            ///< "state_dict_softmax_fc/weight" of arcface_torch's checkpoint
  nlohmann::json about;     ///< what else the file says, as an object: {"network": "r50"}
};

/// Reads safetensors files and those of torch.save(): a state dict alone (model.pt, backbone.pth),
/// arcface_torch's checkpoint_gpu_*.pt, and Lightning's checkpoints; *.onnx as
/// read_onnx_state_dict() does. Does not check that the tensors are those of a network. Throws
/// InputError that names the file, and the tensor or member.
WeightsFile read_weights(const std::filesystem::path& path);

}  // namespace pfc
