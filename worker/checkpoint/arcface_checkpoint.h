// Checkpoints of arcface_torch (train_v2.py with save_all_states), from which a job may go on.
#pragma once

#include <filesystem>
#include <vector>

#include "model/networks/backbone.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"

namespace pfc {

/// checkpoint_gpu_0.pt and so on in this folder, in the order of their ranks; empty where there is
/// none. Throws InputError where one between them is missing.
std::vector<std::filesystem::path> arcface_checkpoint_files(const std::filesystem::path& folder);

/// Throws InputError that names the file, and what was found and expected, where the files are not
/// a checkpoint of this model: other tensors of the backbone, or centres that are not so many
/// classes in arcface_torch's shards. REQUIRES: there are files.
void check_arcface_checkpoint(const std::vector<std::filesystem::path>& files,
                              const BackboneParameters& parameters, const CheckpointModel& model);

/// Writes the files' backbone, centres, moments and number of steps as a checkpoint of pfc into
/// `output`, and returns its path. Any number of workers can then load it. Of `identity`, this sets
/// what the files say: trained, world_size and global_batch. REQUIRES: trained.planned is the batch
/// of this job. `images`: of the data set; with the steps of an epoch they say which batch
/// arcface_torch had. Throws as check_arcface_checkpoint() does, and
/// StorageError.
std::filesystem::path convert_arcface_checkpoint(const std::vector<std::filesystem::path>& files,
                                                 const BackboneParameters& parameters,
                                                 const CheckpointModel& model,
                                                 checkpoint_format::Identity identity,
                                                 std::int64_t images,
                                                 const std::filesystem::path& output);

}  // namespace pfc
