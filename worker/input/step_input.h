// Runs ahead of the training step, on a thread of its own (one micro-batch is ready and one is in
// the making while a third is trained on): takes the next batch
// from the prefetcher, gathers every worker's labels, and chooses the active class centres. So
// neither the labels' collective nor the sampling is on the critical path.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "worker/comm/comm.h"
#include "worker/data/batch.h"
#include "worker/data/prefetcher.h"
#include "worker/head/head.h"
#include "worker/input/image_upload.h"

namespace pfc {

/// What a worker tells all others with each micro-batch, so that all act on it at the same step.
struct WorkerSignals {
  bool stop = false;                    ///< checkpoint after this step and end
  std::int64_t checkpoint_request = 0;  ///< see CheckpointSchedule::fill(); 0: none
  std::int64_t checkpoint_on_disk = 0;  ///< newest step whose part of this worker is on disk
};

/// The same signals combined over all workers: any, maximum, minimum.
WorkerSignals combine(std::span<const WorkerSignals> workers);

/// Everything that one micro-batch of a training step needs.
struct StepInput {
  std::unique_ptr<Batch> batch;
  std::vector<std::int64_t> all_labels;  ///< [N], by rank
  ActiveCentres active;
  WorkerSignals signals;    ///< combined over all workers
  double wait_seconds = 0;  ///< how long next() waited for it: data was late
};

/// next() and recycle() belong to the training thread.
class StepInputs {
 public:
  virtual ~StepInputs() = default;
  /// The next micro-batch, or one without a batch after the last, and after a step whose last
  /// micro-batch has the signal to stop. Rethrows what the thread threw (InputError of the data,
  /// CommError of the collective).
  virtual StepInput next() = 0;
  virtual void recycle(std::unique_ptr<Batch> batch) = 0;
};

/// How many inputs exist at the same time: one is trained on, one is ready and one is being made.
inline constexpr int kStepInputs = 3;

/// Bytes of the labels of N samples on `workers` workers: those of each input, and the message that
/// each worker sends and receives.
std::size_t step_label_bytes(std::int64_t samples, int workers);

struct StepInputsOptions {
  ImageUpload* upload = nullptr;  ///< gets the images of every batch. Borrowed; null: nobody does
  std::int64_t classes = 0;
  std::int64_t gradient_acc = 1;
  /// Asked on the thread for each micro-batch; must be thread-safe.
  std::function<WorkerSignals()> signals;
};

/// All borrowed; `comm` is used by the thread only.
std::unique_ptr<StepInputs> make_step_inputs(Prefetcher& prefetcher, Comm& comm, const Head& head,
                                             const StepInputsOptions& options);

}  // namespace pfc
