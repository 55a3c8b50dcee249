// One optimizer step: from a batch of images to updated weights and class centres.
#pragma once

#include <cstdint>

#include "comm/comm.h"
#include "common/config/config.h"
#include "kernels/ops.h"
#include "model/networks/backbone.h"
#include "model/networks/statistics_backup.h"
#include "worker/gradients/grad_reducer.h"
#include "worker/gradients/loss_scale.h"
#include "worker/gradients/optimizer.h"
#include "worker/head/head.h"
#include "worker/input/step_input.h"
#include "worker/report/phase_timer.h"
#include "worker/report/step_dump.h"
#include "worker/report/step_stats.h"
#include "worker/schedule/lr_schedule.h"
#include "worker/tensorboard/step_sampler.h"

namespace pfc {

/// Shapes of a step's own buffers, float32: M micro-batches, B images per worker, N = W * B. They
/// hold the whole step, so it can be written to a file if a value in it is not finite.
struct StepShapes {
  StepShapes(const JobConfig& job, int workers)
      : all_embeddings{job.gradient_acc * workers * job.batch_size, job.embedding_size},
        d_embeddings{job.gradient_acc * job.batch_size, job.embedding_size} {}
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(all_embeddings.elements() + d_embeddings.elements()) *
           sizeof(float);
  }
  Shape all_embeddings;  ///< [M * N, D]
  Shape d_embeddings;    ///< [M * B, D]
};

/// Everything that a step uses. It borrows all of it from the TrainingSession.
struct Trainer {
  Ops& ops;
  Comm& comm;  ///< for embeddings, row statistics and the embeddings' gradients
  Backbone& backbone;
  StatisticsBackup& statistics;
  Head& head;
  GradReducer& reducer;
  Optimizer& optimizer;
  LossScale& loss_scale;
  const LrScheduler& lr;
  StepInputs& inputs;
  StepDump& dump;
  StepSampler& sampler;
  PhaseTimer& phase;
  std::int64_t gradient_acc = 1;

  Tensor all_embeddings;  ///< [M * N, D], as StepShapes says
  Tensor d_embeddings;    ///< [M * B, D]
};

/// Trains one step on the next inputs. The stats name the step. If all workers are asked to stop
/// before the last micro-batch, abandons the step and restores the state after the previous one.
/// If the backbone's gradient has overflowed because of its loss scale, no worker changes the
/// backbone or a centre. If the loss or a gradient is not finite for another reason, all workers
/// see it; each writes the head's inputs to a file and throws InputError. Throws DataFailed on
/// all workers at the same micro-batch, with the state after the previous step. Throws CommError.
/// REQUIRES: the inputs have not ended.
StepStats train_step(Trainer& t);

}  // namespace pfc
