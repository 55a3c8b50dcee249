// Shapes of the buffers of a training step, for the memory plan and the trainer.
#pragma once

#include <cstddef>

#include "common/config/config.h"
#include "kernels/tensor.h"

namespace pfc {

/// Shapes of a step's buffers: M micro-batches, B images per worker, N = W * B. The float32 buffers
/// hold all micro-batches, so the step can be written to a file if a value is not finite.
struct StepShapes {
  StepShapes(const JobConfig& job, int workers)
      : all_embeddings{job.gradient_acc * workers * job.batch_size, job.embedding_size},
        d_embeddings{job.gradient_acc * job.batch_size, job.embedding_size},
        exchanged{job.exchange_precision == Precision::kBf16 && workers > 1
                      ? workers * job.batch_size
                      : 0,
                  job.embedding_size} {}
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(all_embeddings.elements() + d_embeddings.elements()) *
               sizeof(float) +
           2 * exchanged_bytes();
  }
  [[nodiscard]] std::size_t exchanged_bytes() const {  // of one of the two buffers
    return static_cast<std::size_t>(exchanged.elements()) * size_of(DType::kBFloat16);
  }
  Shape all_embeddings;  ///< [M * N, D]
  Shape d_embeddings;    ///< [M * B, D]
  Shape exchanged;       ///< [N, D], of two bf16 buffers (EmbeddingExchange); [0, D]: none
};

}  // namespace pfc
