// Statistics of one optimizer step, for the log, the metrics and the training loop.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/input/step_input.h"

namespace pfc {

/// Equal on every worker, except where noted.
struct StepStats {
  std::int64_t step = 0;  ///< number of the step, from 1
  /// False: the step was abandoned because of a stop. Only `step` and `signals` are then valid.
  bool complete = true;
  std::int64_t epoch = 0;
  double loss = 0;  ///< mean over the samples of all workers and micro-batches
  /// Means over the same samples of the losses of a teacher's embeddings and of its logits, not
  /// multiplied by their weights; only if the job has them.
  std::optional<double> distillation_loss, logits_loss;
  double lr = 0;
  /// L2 norm of the backbone's gradient, before clipping. If it is not finite, the loss scale was
  /// too large, and neither the backbone nor the centres were updated.
  double gradient_norm = 0;
  double loss_scale = 1;                 ///< applied to the gradients of this step
  double data_wait_seconds = 0;          ///< time that this worker waited for its batches
  double own_data_wait_seconds = 0;      ///< part of it caused by this worker's own data
  double loader_seconds = 0;             ///< sum over this worker's loader threads
  double reduce_seconds = 0;             ///< this worker's time in the all-reduce of the gradients
  double reduce_overlapped_seconds = 0;  ///< part of it that ran during the backward pass
  std::int64_t samples = 0;              ///< over all workers
  std::int64_t skipped_images = 0;       ///< skipped by this worker so far in this epoch
  WorkerSignals signals;                 ///< signals of the last micro-batch
};

}  // namespace pfc
