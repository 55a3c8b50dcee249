// Prepares the inputs of training steps on a background thread: takes the next batch from the
// prefetcher, gathers the labels of all workers, selects the active class centres, and copies the
// images to the device. While a step trains on one micro-batch, the next micro-batch is ready, and
// the one after it is being made. So neither the collective for labels nor the sampling delays a
// step.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/comm.h"
#include "common/error.h"
#include "common/trace/recorder.h"
#include "data/prefetch/batch.h"
#include "data/prefetch/prefetcher.h"
#include "kernels/ops.h"
#include "worker/head/head.h"
#include "worker/input/image_upload.h"

namespace pfc {

/// The signals of a worker, which are sent to all workers with each micro-batch. So all workers act
/// on them at the same step.
struct WorkerSignals {
  bool stop = false;                    ///< do not train after this micro-batch
  bool data_failed = false;             ///< this worker has no data for this micro-batch
  std::int64_t checkpoint_request = 0;  ///< see CheckpointSchedule::fill(); 0 for none
  std::int64_t checkpoint_on_disk = 0;  ///< newest step for which this worker's part is on disk
  std::int64_t snapshot_request = 0;    ///< see SnapshotMaker::fill(); 0 for none
};

/// The data of at least one worker have failed. All workers throw this at the same point. The
/// current step has changed neither weights nor centres, so the previous state can be saved.
class DataFailed : public InputError {
 public:
  /// `mine`: this worker's data have failed, and `what` describes the failure.
  DataFailed(const std::string& what, bool mine) : InputError(what), mine_(mine) {}
  [[nodiscard]] bool mine() const { return mine_; }

 private:
  bool mine_;
};

/// Combines the signals of all workers. `stop` and `data_failed` are true if any worker sets them.
/// Takes the largest checkpoint_request and snapshot_request, and the smallest checkpoint_on_disk.
/// REQUIRES: workers is not empty.
WorkerSignals combine(std::span<const WorkerSignals> workers);

/// Input of one micro-batch.
struct StepInput {
  std::unique_ptr<Batch> batch;  ///< nullptr after the last batch, and after recycle()
  std::int64_t step = 0;         ///< optimizer step of this micro-batch, from 1
  Tensor images;                 ///< until recycle(): [B, H, W, 3] uint8 or [B, D] float32
  /// [N, labels_per_image], by rank: positions of the classes (Head::positions()), padded with -1.
  std::vector<std::int64_t> all_labels;
  ActiveCentres active;
  WorkerSignals signals;    ///< combined over all workers
  double wait_seconds = 0;  ///< time that next() waited for this input
};

/// Number of inputs that exist at the same time: one in training, one ready and one being made.
inline constexpr int kStepInputs = 3;

/// Returns the bytes for the labels [N, labels_per_image] of `workers` workers: the messages of all
/// workers in each input, and the one that this worker sends.
std::size_t step_label_bytes(std::int64_t labels, int workers);

struct StepInputsOptions {
  Shape images;                   ///< [B, H, W, 3], or [B, D] for embeddings
  DType type = DType::kUInt8;     ///< kFloat32 for embeddings
  std::int64_t gradient_acc = 1;  ///< micro-batches per step
  std::int64_t labels_per_image = 1;
  /// Called by the background thread once per micro-batch. REQUIRES: thread-safe.
  std::function<WorkerSignals()> signals;
  /// Returns whether the classes of this step are sampled only when the step before is complete,
  /// because the head's neighbours change in between. Empty: never. REQUIRES: thread-safe.
  std::function<bool(std::int64_t step)> waits_for_step_before = {};
  TraceTrack track = {};  ///< records the background thread
};

/// Used by the training thread.
class StepInputs {
 public:
  /// Borrows all arguments. Only the background thread uses `comm`.
  StepInputs(Ops& ops, Prefetcher& prefetcher, Comm& comm, const Head& head,
             const StepInputsOptions& options);
  ~StepInputs();
  StepInputs(const StepInputs&) = delete;
  StepInputs& operator=(const StepInputs&) = delete;

  /// Returns the next micro-batch. After the last micro-batch, and after one whose signals say
  /// stop, returns an input without a batch. Rethrows errors of the background thread: DataFailed
  /// on all workers when the data of one have failed, CommError of the collective, and errors of
  /// `signals`.
  StepInput next();
  /// Releases the batch and the images of `input`, and leaves its other members unchanged.
  /// REQUIRES: all work that reads the images is enqueued; `input` was returned by the last call of
  /// next(), and has a batch.
  void recycle(StepInput& input);

 private:
  Tensor images_of(Batch& batch);
  void run();
  StepInput make();
  void exchange(StepInput& input, bool data_failed);
  bool wait_until_wanted(std::int64_t micro_batch, std::int64_t step);
  bool hand_over(StepInput input);

  Prefetcher& prefetcher_;
  Comm& comm_;
  const Head& head_;
  const StepInputsOptions options_;
  std::optional<ImageUpload> upload_;  // empty on a CPU

  // Used only by thread_:
  std::vector<std::int64_t> message_;
  bool stopped_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<StepInput> ready_;  // guarded by mutex_
  std::exception_ptr error_;        // guarded by mutex_
  bool closed_ = false;             // guarded by mutex_
  bool wanted_ = false;             // guarded by mutex_: next() waits
  std::thread thread_;
};

}  // namespace pfc
