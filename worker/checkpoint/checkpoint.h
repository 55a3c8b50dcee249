// Checkpoints: step-%09d/ with manifest.json, backbone.safetensors, backbone_optimizer.safetensors
// and centres-%05d-of-%05d.safetensors. Any number of workers loads any other's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/ids.h"
#include "kernels/ops.h"
#include "worker/backbone/backbone.h"
#include "worker/checkpoint/checkpoint_removal.h"
#include "worker/gradients/loss_scale.h"
#include "worker/gradients/optimizer.h"
#include "worker/head/head.h"

namespace pfc {

/// Everything that a checkpoint holds, borrowed.
struct TrainingState {
  Ops& ops;
  Backbone& backbone;
  Optimizer& optimizer;
  Head& head;
  LossScale& loss_scale;
  std::int64_t classes = 0;
  std::string network;  ///< as the job names it; a checkpoint of another one is refused
};

struct CheckpointInfo {
  std::filesystem::path folder;
  std::int64_t step = 0;  ///< optimizer steps done
  int world_size = 0;
  std::int64_t global_batch = 0;  ///< world_size * batch_size * gradient_acc
};

/// How begin() writes.
enum class CheckpointMode {
  kCopy,  ///< copies the state to host memory and returns; a thread writes while training goes on
  kInPlace,  ///< writes the state itself and returns when this worker's part is on disk: training
             ///< waits. Host memory for one file of the backbone; for centres only off the host
};

/// Writes checkpoints. The folder becomes visible (rename) when rank 0 calls publish() after every
/// worker's part is on disk; the oldest beyond `keep` then lose their names and are removed by a
/// thread of the writer's own. finished_step() may be called from any thread, the others belong to
/// the training thread.
class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;
  /// Waits for an earlier write of this worker first. What goes wrong with this one is thrown by
  /// wait() and finished_step(), in either mode.
  virtual void begin(const TrainingState& state, std::int64_t step, const nlohmann::json& job,
                     CheckpointMode mode) = 0;
  /// The step whose part of this worker is on disk and synced; nothing yet: 0. Throws StorageError
  /// (disk full) from the write until wait() has thrown it: whoever asks from another thread must
  /// not take the error away from the training thread. The last good checkpoint stays whole; what
  /// was written of the failed one goes with the writers, when the job ends. CommError where rank 0
  /// has ended already.
  [[nodiscard]] virtual std::int64_t finished_step() = 0;
  virtual void wait() = 0;  ///< until this worker's part is on disk; throws the write's error once
  /// Rank 0, when all parts of `step` are on disk: writes the manifest with checksums and renames
  /// the folder. Does not wait for the removal of old checkpoints; the next write of this worker
  /// does, on its own thread, because it may need their space. An old checkpoint that cannot be
  /// removed is logged.
  virtual void publish(std::int64_t step) = 0;
};

struct CheckpointOptions {
  std::filesystem::path output;
  Membership membership;
  std::int64_t keep = 3;
  std::int64_t global_batch = 0;
  RemoveFolder remove = {};  ///< of old checkpoints; empty: std::filesystem::remove_all
};
std::unique_ptr<CheckpointWriter> make_checkpoint_writer(const CheckpointOptions& options);

/// Bytes of host memory that a copy of rank 0's state takes (CheckpointMode::kCopy), without the
/// history of updates: 12 bytes for each.
std::size_t checkpoint_copy_bytes(const HeadMemory& head, const BackboneMemory& backbone,
                                  std::size_t optimizer_bytes);

/// The newest published checkpoint under `output` whose manifest reads; nullopt when there is no
/// checkpoint. Throws InputError when there are some and none reads: nobody wants to begin anew
/// over them unasked.
std::optional<CheckpointInfo> newest_checkpoint(const std::filesystem::path& output);
CheckpointInfo read_manifest(const std::filesystem::path& folder);

/// Loads any world size's checkpoint: this worker reads the rows of its shard from whichever files
/// hold them. Verifies checksums of the files it reads. Throws InputError that names the file, both
/// checksums and the checkpoint before it, if there is one.
CheckpointInfo load_checkpoint(const std::filesystem::path& folder, const TrainingState& state);

}  // namespace pfc
