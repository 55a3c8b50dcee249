// What one optimizer step came to: for logs, metrics and the loop around it.
#pragma once

#include <cstdint>

#include "worker/input/step_input.h"

namespace pfc {

struct StepStats {
  double loss = 0;  ///< mean over the samples of all workers and micro-batches
  double lr = 0;
  double gradient_norm = 0;  ///< of the backbone, before clipping; 0 when clipping is off. Not
                             ///< finite: the loss scale was too large, the update was skipped
  double loss_scale = 1;     ///< of this step
  double data_wait_seconds = 0;
  double reduce_seconds = 0;             ///< the gradients' all-reduce, on its thread
  double reduce_overlapped_seconds = 0;  ///< the part of it that ran while backward did
  std::int64_t epoch = 0;
  std::int64_t samples = 0;         ///< of all workers
  std::int64_t skipped_images = 0;  ///< of this worker, so far in this epoch
  WorkerSignals signals;            ///< of the last micro-batch
};

}  // namespace pfc
