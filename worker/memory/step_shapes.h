// Shapes of the buffers of a training step, for the memory plan and the trainer.
#pragma once

#include <cstddef>

#include "common/config/config.h"
#include "kernels/tensor.h"

namespace pfc {

/// Shapes of a step's float32 buffers: M micro-batches, B images per worker, N = W * B. The buffers
/// hold all micro-batches, so the step can be written to a file if a value is not finite.
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

}  // namespace pfc
