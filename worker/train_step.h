// One optimizer step: from a batch of images to updated weights and class centres.
#pragma once

#include "worker/input/step_input.h"
#include "worker/report/step_stats.h"
#include "worker/trainer.h"

namespace pfc {

/// Trains one step on the next inputs. If all workers are asked to stop before the last
/// micro-batch, abandons the step and restores the state of the previous one. If the backbone's
/// gradient has overflowed because of its loss scale, no worker changes the backbone or a centre.
/// If the loss or a gradient is not finite for another reason, all workers see this. Each worker
/// then writes the head's inputs to a file and throws InputError. Throws DataFailed on all workers
/// at the same micro-batch; the state is then that of the previous step. Throws CommError.
/// REQUIRES: the inputs have not ended.
StepStats train_step(Trainer& t, StepInputs& inputs);

}  // namespace pfc
