// Reads checkpoints of arcface_torch, from which a job can resume: those of train_v2.py with
// save_all_states, and the backbone and class centres that older versions saved.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/networks/backbone.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"

namespace pfc {

/// Files of one checkpoint.
struct ArcfaceCheckpoint {
  std::filesystem::path backbone = {};               ///< the first of `centres`, or backbone.pth
  std::vector<std::filesystem::path> centres = {};   ///< files of GPU 0, 1, ...; not empty
  std::vector<std::filesystem::path> momentum = {};  ///< files of all GPUs; empty: in `centres`
};

/// Returns the checkpoint in this folder: checkpoint_gpu_0.pt and so on; or else backbone.pth with
/// rank_0_softmax_weight.pt (or rank:0_softmax_weight.pt) and perhaps
/// rank_0_softmax_weight_mom.pt, or with softmax_fc_gpu_0.pt. Throws InputError if a number in the
/// sequence of files is missing.
std::optional<ArcfaceCheckpoint> find_arcface_checkpoint(const std::filesystem::path& folder);

/// Calls `take` for each GPU, in order. first: class of the first centre. dimension: D. centres:
/// [n, D]. Throws InputError that names the file if a file has no centres.
using TakeArcfaceCentres =
    std::function<void(std::int64_t first, std::int64_t dimension, std::span<const float> centres)>;
void read_arcface_centres(const ArcfaceCheckpoint& from, const TakeArcfaceCentres& take);

/// Throws InputError if the files are not a checkpoint of this model: other tensors of the
/// backbone, moments of another optimizer, files of different steps, or centres whose shapes are
/// not those of arcface_torch's shards of model.classes classes. The error names the file, what was
/// found and what was expected.
void check_arcface_checkpoint(const ArcfaceCheckpoint& from, const BackboneParameters& parameters,
                              const CheckpointModel& model);

/// Writes the files' backbone, centres, moments and number of steps as a checkpoint of pfc into
/// `output`, and returns its path. Any number of workers can then load it. Sets in `identity`
/// what the files record: trained, world_size and global_batch. REQUIRES: trained.planned is the
/// batch of this job. `images`: number of images of the data set; with the steps per epoch it
/// determines arcface_torch's batch. Older files do not record the progress; it is then step 0.
/// Throws as check_arcface_checkpoint() does, and StorageError.
std::filesystem::path convert_arcface_checkpoint(const ArcfaceCheckpoint& from,
                                                 const BackboneParameters& parameters,
                                                 const CheckpointModel& model,
                                                 checkpoint_format::Identity identity,
                                                 std::int64_t images,
                                                 const std::filesystem::path& output);

}  // namespace pfc
