// The numbers of one optimizer step: for the log, the metrics, and the training loop.
#pragma once

#include <cstdint>

#include "worker/input/step_input.h"

namespace pfc {

/// Unless something else is said, the same on every worker.
struct StepStats {
  std::int64_t step = 0;  ///< from 1
  /// False: a stop came before the last micro-batch, the step was given up, and of the rest only
  /// `step` and `signals` mean something.
  bool complete = true;
  std::int64_t epoch = 0;
  double loss = 0;  ///< mean over the samples of all workers and micro-batches
  double lr = 0;
  /// L2 norm of the backbone's gradient, before clipping. Not finite: the loss scale was too large,
  /// and neither the backbone nor a centre has moved.
  double gradient_norm = 0;
  double loss_scale = 1;                 ///< that the gradients of this step carried
  double data_wait_seconds = 0;          ///< that this worker waited for its batches
  double own_data_wait_seconds = 0;      ///< of it: because its own data were not there
  double loader_seconds = 0;             ///< of this worker's threads that read its batches
  double reduce_seconds = 0;             ///< this worker's part in the all-reduce of the gradients
  double reduce_overlapped_seconds = 0;  ///< the part of it that ran during the backward pass
  std::int64_t samples = 0;              ///< of all workers
  std::int64_t skipped_images = 0;       ///< of this worker, so far in this epoch
  WorkerSignals signals;                 ///< of the last micro-batch
};

}  // namespace pfc
