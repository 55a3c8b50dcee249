// Starts a job from the weights of a file (`init_from`).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "model/networks/backbone.h"
#include "worker/checkpoint/checkpoint.h"

namespace pfc {

/// JobConfig::init_from and init_from_names.
struct InitFrom {
  std::filesystem::path file;
  std::vector<std::string> names = {};  ///< patterns of tensor names to take; empty: all
  const Dataset* dataset = nullptr;     ///< names the job's classes. Borrowed; null: no names
};
struct InitialWeights {
  std::string message;  ///< for the log: the file, and the tensors taken and not taken
  /// Which rows of this worker's shard were set from the file; empty: none.
  std::vector<bool> centres;
};
/// Loads weights from a file of any known format (weights_file.h): backbone.safetensors,
/// model.pt, a checkpoint of arcface_torch. A tensor `centres` [C, D] float32 in it sets the
/// class centres too: by class name if both identities.txt beside the file and the data have
/// names, otherwise by class number. Momentum and the number of steps do not change. The last
/// layers and the centres may have other shapes, for another embedding size or other identities;
/// then they keep their values (check_state_dict()). Throws InputError that names the file and
/// the tensor, or the pattern that matches none.
InitialWeights init_from(const InitFrom& from, const TrainingState& state);
/// Throws the errors that init_from() would throw for a network with these tensors and this number
/// of classes.
void check_init_from(const InitFrom& from, const BackboneParameters& parameters,
                     std::int64_t classes, std::int64_t embedding_size);

}  // namespace pfc
