// Writes checkpoints of a job's state and loads them. A job can resume with another number of
// workers. docs/checkpoints.md describes the files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/trace/recorder.h"
#include "kernels/ops.h"
#include "model/networks/backbone.h"
#include "worker/checkpoint/checkpoint_removal.h"
#include "worker/checkpoint/output_lock.h"
#include "worker/gradients/loss_scale.h"
#include "worker/gradients/optimizer.h"
#include "worker/gradients/weight_average.h"
#include "worker/head/head.h"
#include "worker/schedule/step_plan.h"

namespace pfc {

class Comm;
struct OutputLinks;

/// The state of training that a checkpoint holds. Borrows everything.
struct TrainingState {
  Ops& ops;
  Backbone& backbone;
  Optimizer& optimizer;
  Head& head;
  LossScale& loss_scale;
  WeightAverage* average = nullptr;  ///< null: none
  std::int64_t classes = 0;
  std::string network;  ///< network of the job; a checkpoint of another network is rejected
  std::int64_t feature_size = 0;
  std::int64_t sub_centres = 1;
  PixelScale pixels = {};              ///< the job's; a checkpoint with another is rejected
  std::vector<int> threads = {};       ///< compute threads of the workers, by rank; 0 on a GPU
  std::vector<std::string> data = {};  ///< content of the data sets (FileBrief)
};

/// Returns views of the flat tensors that all workers share: weights, running statistics,
/// momentum, AdamW's second moment, averages of weights and of running statistics. A view is null
/// if the state lacks the tensor. For running statistics (kStatistics), rank 0's values are used.
inline constexpr std::size_t kSharedTensors = 6;
inline constexpr std::array<std::size_t, 2> kStatistics{1, 5};
std::array<Tensor, kSharedTensors> shared_tensors(const TrainingState& state);

struct CheckpointInfo {
  std::filesystem::path folder;
  TrainedSoFar trained;
  int world_size = 0;
  std::int64_t global_batch = 0;  ///< world_size * batch_size * gradient_acc
};

/// How CheckpointWriter::begin() writes.
enum class CheckpointMode {
  /// Copies the state to host memory and returns. A thread writes the copy while training
  /// continues.
  kCopy,
  /// Writes the state without copying all of it first, and returns when this worker's part is on
  /// disk. Needs host memory for one file of the backbone, and on a GPU for the centres as well.
  kInPlace,
};

/// Writes checkpoints. Each worker writes its part into a temporary folder. A worker that does
/// not see the output folder sends its part to rank 0, which writes it too. When all parts are on
/// disk, rank 0 calls publish(), which gives the folder its final name. Another thread then
/// removes the oldest checkpoints beyond CheckpointOptions::keep. finished_step() may be called
/// from any thread; the other members belong to the training thread.
class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;
  /// Begins to write this worker's part, after waiting for its part of the previous checkpoint.
  /// `trained`: progress of the state. In both modes wait() and finished_step() throw the error
  /// if this write fails.
  virtual void begin(const TrainingState& state, const TrainedSoFar& trained,
                     const nlohmann::json& job, CheckpointMode mode) = 0;
  /// Returns the newest step whose part of this worker is on disk and synced; 0: none yet. After
  /// a failed write (disk full), every call throws its StorageError until wait() has thrown it,
  /// so that the training thread gets the error even if another thread asked first. Throws
  /// CommError if rank 0 has already ended. A failed write leaves earlier checkpoints intact; the
  /// destructor removes its files.
  [[nodiscard]] virtual std::int64_t finished_step() = 0;
  /// Waits until this worker's part is on disk. Throws the error of a failed write once.
  virtual void wait() = 0;
  /// Writes the manifest with checksums and gives the folder its final name. Does not wait for
  /// the removal of old checkpoints. Rank 0's next write does, because it may need their space.
  /// Logs an old checkpoint that cannot be removed. Returns the bytes of all files in the
  /// manifest. REQUIRES: this is rank 0, and all workers' parts of `step` are on disk.
  virtual std::uint64_t publish(std::int64_t step) = 0;
};

struct CheckpointOptions {
  std::filesystem::path output;  ///< REQUIRES: the folder exists
  std::string job_id;            ///< the same on all workers; letters and digits
  /// Lock held by rank 0, borrowed. Null: the caller knows that no other job uses the folder.
  const OutputLock* lock = nullptr;
  /// Borrowed. Null: all workers see the folder.
  const OutputLinks* links = nullptr;
  Membership membership;
  std::int64_t keep = 3;
  std::int64_t global_batch = 0;
  TraceTrack track = {};     ///< records when this worker writes its part
  RemoveFolder remove = {};  ///< removes an old checkpoint; empty: remove_own_folder()
};
std::unique_ptr<CheckpointWriter> make_checkpoint_writer(const CheckpointOptions& options);

/// Returns the bytes of host memory for a copy of rank 0's state (CheckpointMode::kCopy) after
/// this number of updates. The history of the updates is a part of it. optimizer_bytes: of the
/// backbone's moments and averages.
std::size_t checkpoint_copy_bytes(const HeadMemory& head, const BackboneMemory& backbone,
                                  std::size_t optimizer_bytes, std::int64_t updates);

/// Returns the newest published checkpoint under `output` whose manifest can be read; nullopt if
/// there is no checkpoint. Throws InputError if there are checkpoints and none can be read. So a
/// job does not silently start from the beginning next to damaged checkpoints.
std::optional<CheckpointInfo> newest_checkpoint(const std::filesystem::path& output);
/// Returns the newest checkpoint as above, from which a job with this `output` resumes. Throws
/// InputError if there is one but the job does not have `resume`.
std::optional<CheckpointInfo> checkpoint_to_resume(const std::filesystem::path& output,
                                                   bool resume);
/// Returns text for an error of reading this checkpoint: how to continue without it. `images`: on
/// which it was trained.
std::string advice_without(const std::filesystem::path& folder, std::int64_t images);
/// Throws InputError if the manifest cannot be read.
CheckpointInfo read_manifest(const std::filesystem::path& folder);

/// The model that a checkpoint must match.
struct CheckpointModel {
  std::string network;  ///< empty: any
  std::int64_t feature_size = 0;
  std::int64_t sub_centres = 1;
  std::int64_t embedding_size = 0;  ///< centre_size(): length of a class's row
  std::int64_t classes = 0;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  PixelScale pixels = {};
};
/// Throws InputError that names the manifest if the checkpoint is of another model. Throws as
/// load_checkpoint() does if a file is missing, cannot be read or differs in size from the
/// manifest. Does not check checksums and contents.
void check_checkpoint_fits(const std::filesystem::path& folder, const CheckpointModel& model);

/// Loads a checkpoint written by any number of workers: this worker reads the rows of its shard
/// from the files that hold them. Verifies the checksum of every file that it reads. Throws
/// InputError that names the file, its fault, and the previous checkpoint, if there is one.
CheckpointInfo load_checkpoint(const std::filesystem::path& folder, const TrainingState& state);

/// The communicators over which rank 0 distributes a checkpoint.
struct LoadComms {
  Comm& device;  ///< for tensors of the worker's device
  Comm& host;    ///< for tensors in host memory
  const OutputLinks& links;
};
/// Like load_checkpoint(), if some workers do not see the folder: rank 0 reads for them, and all
/// workers receive the backbone from it. Rank 0 verifies the files of all centres. All workers
/// throw its InputError with the same text. Collective. Also throws CommError.
CheckpointInfo load_checkpoint_of_rank_zero(const std::filesystem::path& folder,
                                            const TrainingState& state, const LoadComms& comms);

}  // namespace pfc
