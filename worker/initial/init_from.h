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
  std::vector<std::string> names = {};  ///< patterns of tensors to take; empty: all
  const Dataset* dataset = nullptr;     ///< names the job's classes. Borrowed; null: has no names
};
struct InitialWeights {
  std::string message;        ///< for the log: the file, what was taken, and what was not
  std::vector<bool> centres;  ///< rows of this worker's shard that the file gave; empty: none
};
/// Takes weights from a file of any known format (weights_file.h): backbone.safetensors, model.pt,
/// a checkpoint of arcface_torch. A tensor `centres` [C, D] float32 in it sets the class centres
/// too: by the names of the classes where identities.txt beside the file and the data have them,
/// otherwise by their numbers. Momentum and the number of steps stay as they are. The last layers
/// and the centres may have other shapes, for embeddings of another size and other identities:
/// these keep their values (check_state_dict()). Throws InputError that names the file and the
/// tensor, or the pattern that matches none.
InitialWeights init_from(const InitFrom& from, const TrainingState& state);
/// Throws as init_from() would for a network with these tensors and so many classes.
void check_init_from(const InitFrom& from, const BackboneParameters& parameters,
                     std::int64_t classes, std::int64_t embedding_size);

}  // namespace pfc
