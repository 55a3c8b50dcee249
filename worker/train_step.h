// One optimizer step: from a batch of images to moved weights and class centres.
#pragma once

#include <cstdint>
#include <memory>

#include "common/config/config.h"
#include "kernels/ops.h"
#include "worker/backbone/backbone.h"
#include "worker/comm/comm.h"
#include "worker/gradients/grad_reducer.h"
#include "worker/gradients/loss_scale.h"
#include "worker/gradients/optimizer.h"
#include "worker/head/head.h"
#include "worker/input/step_input.h"
#include "worker/report/phase_timer.h"
#include "worker/report/step_dump.h"
#include "worker/report/step_stats.h"
#include "worker/schedule/lr_schedule.h"

namespace pfc {

/// Bytes of the buffers that a Trainer borrows: B images a worker, N = W * B.
struct StepBufferBytes {
  StepBufferBytes(const JobConfig& job, int workers, std::int64_t height, std::int64_t width,
                  DType activations)
      : images_u8(static_cast<std::size_t>(job.batch_size * height * width * 3)),
        images(images_u8 * size_of(activations)),
        d_embeddings(static_cast<std::size_t>(job.batch_size * job.embedding_size) * sizeof(float)),
        all_embeddings(d_embeddings * static_cast<std::size_t>(workers)) {}
  std::size_t images_u8, images, d_embeddings, all_embeddings;
};

/// Everything that a step touches, borrowed from the training loop.
struct Trainer {
  Ops& ops;
  Comm& comm;  ///< embeddings, row statistics, embedding gradients
  Backbone& backbone;
  Head& head;
  GradReducer& reducer;
  Optimizer& optimizer;
  LossScale& loss_scale;
  const LrScheduler& lr;
  StepInputs& inputs;
  ImageUpload& upload;
  StepDump& dump;
  PhaseTimer& phase;
  std::int64_t gradient_acc = 1;

  // Fixed buffers (StepBufferBytes).
  Tensor images_u8;       ///< [B, H, W, 3] uint8, of an evaluation
  Tensor images;          ///< [B, H, W, 3] of the activations' type
  Tensor all_embeddings;  ///< [N, D]
  Tensor d_embeddings;    ///< [B, D]
};

/// Step 1 .. T. When the loss or a gradient is not finite (the same verdict on every worker),
/// writes what the head was given and throws InputError. Throws CommError, and what the data
/// throws.
StepStats train_step(Trainer& t, std::int64_t step);

}  // namespace pfc
