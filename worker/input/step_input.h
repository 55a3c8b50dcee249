// Makes the inputs of training steps ahead of them, on a thread of its own: takes the next batch
// from the prefetcher, gathers the labels of all workers, chooses the active class centres, and
// copies the images to the device. While the step trains on one micro-batch, the next one is ready
// and the one after it is being made. So neither the collective of the labels nor the sampling
// delays a step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "common/error.h"
#include "common/trace/recorder.h"
#include "data/batch.h"
#include "data/prefetcher.h"
#include "kernels/ops.h"
#include "worker/head/head.h"

namespace pfc {

/// What a worker tells all others with each micro-batch, so that all act on it at the same step.
struct WorkerSignals {
  bool stop = false;                    ///< train no micro-batch after this one
  bool data_failed = false;             ///< this worker has no data for this micro-batch
  std::int64_t checkpoint_request = 0;  ///< see CheckpointSchedule::fill(); 0: none
  std::int64_t checkpoint_on_disk = 0;  ///< newest step whose part of this worker is on disk
  std::int64_t snapshot_request = 0;    ///< see SnapshotMaker::fill(); 0: none
};

/// The data of one worker or more have failed. All workers throw it at the same place: the step
/// that it happens in has changed neither weights nor centres, and the state before it can be
/// saved.
class DataFailed : public InputError {
 public:
  /// `mine`: whether this worker's data have failed; then `what` says how.
  DataFailed(const std::string& what, bool mine) : InputError(what), mine_(mine) {}
  [[nodiscard]] bool mine() const { return mine_; }

 private:
  bool mine_;
};

/// The signals of all workers as one: stop or data_failed if any says so, the largest
/// checkpoint_request and snapshot_request, the smallest checkpoint_on_disk. REQUIRES: workers is
/// not empty.
WorkerSignals combine(std::span<const WorkerSignals> workers);

/// Everything that one micro-batch of a training step needs.
struct StepInput {
  std::unique_ptr<Batch> batch;          ///< null after the last one, and after recycle()
  std::int64_t step = 0;                 ///< the optimizer step it belongs to, from 1
  Tensor images;                         ///< [B, H, W, 3] uint8 on the device, until recycle(); of
                                         ///< embeddings [B, D] float32
  std::vector<std::int64_t> all_labels;  ///< [N], by rank
  ActiveCentres active;
  WorkerSignals signals;    ///< of all workers, combined
  double wait_seconds = 0;  ///< how long next() waited because this was not ready
};

/// For the training thread.
class StepInputs {
 public:
  virtual ~StepInputs() = default;
  /// The next micro-batch. One without a batch after the last one, and after one that has the
  /// signal to stop. Throws what the thread threw: DataFailed on all workers when the data of one
  /// have failed, CommError of the collective, and what the signals threw.
  virtual StepInput next() = 0;
  /// Takes batch and images back, and leaves the rest of `input` as it is. All work that reads the
  /// images must be enqueued by then. REQUIRES: input is from the last next(), and has a batch.
  virtual void recycle(StepInput& input) = 0;
};

/// How many inputs exist at the same time: one is trained on, one is ready and one is being made.
inline constexpr int kStepInputs = 3;

/// Bytes of the labels of N samples on `workers` workers: those of each input, and the message that
/// each worker sends and receives.
std::size_t step_label_bytes(std::int64_t samples, int workers);

struct StepInputsOptions {
  Shape images;                   ///< [B, H, W, 3], or of embeddings [B, D]
  DType type = DType::kUInt8;     ///< of embeddings kFloat32
  std::int64_t gradient_acc = 1;  ///< micro-batches of a step
  /// The thread asks it once for each micro-batch. REQUIRES: it is thread-safe.
  std::function<WorkerSignals()> signals;
  TraceTrack track = {};  ///< records what the thread does
};

/// Everything is borrowed. Only the thread uses `comm`.
std::unique_ptr<StepInputs> make_step_inputs(Ops& ops, Prefetcher& prefetcher, Comm& comm,
                                             const Head& head, const StepInputsOptions& options);

}  // namespace pfc
