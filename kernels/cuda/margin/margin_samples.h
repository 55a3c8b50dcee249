// What the margin softmax computes by sample, a warp or a thread each. All memory is the device's;
// everything is enqueued on its compute stream.
#pragma once

#include <cstdint>

#include "kernels/cuda/margin/centre_rows.h"
#include "kernels/cuda/margin/margin_tile.h"
#include "kernels/math/margin.h"
#include "kernels/math/row_statistics.h"

namespace pfc {

/// N samples, padded to a multiple of 8, D numbers, padded likewise.
struct MarginSamples {
  std::int64_t samples = 0, padded_samples = 0;
  std::int64_t dimension = 0, padded_dimension = 0;
  const float* embeddings = nullptr;      ///< [N, D], not normalised
  double* inverse_length = nullptr;       ///< [N]
  const std::int32_t* targets = nullptr;  ///< [N] among the active classes; -1: none here
  Angle* angles = nullptr;                ///< [N], of those that have one
  RowSoftmax* softmax = nullptr;          ///< [N]
  float* max = nullptr;                   ///< [padded N], of all workers
  float* factor = nullptr;            ///< [padded N]: d loss / d cos = factor * exp(logit - max)
  float* d_unit = nullptr;            ///< [padded N, padded D]
  float* target_gradients = nullptr;  ///< [padded N, padded D], of those that have a target
};

/// unit [padded N, padded D], float32 or bf16: embeddings divided by their lengths, padded with
/// zeros. Fills inverse_length.
void normalise_embeddings(const CudaDevice& device, const MarginSamples& s, const Tensor& unit);

/// Fills angles, in float64 from the vectors themselves (kernels/math/margin.h).
void find_angles(const CudaDevice& device, const MarginSamples& s, const CudaCentreRows& rows,
                 const RowList& active);

/// The statistics of this worker, [N]. running.slots 0: it has no active class.
void finish_statistics(const CudaDevice& device, const MarginSamples& s,
                       const LogitStatistics& running, const MarginSoftmaxOptions& options,
                       RowStatistics* statistics);

/// Of all workers' statistics, [workers, N]: fills softmax and max; loss [1]: the sum over samples.
void combine_statistics(const CudaDevice& device, const MarginSamples& s,
                        const RowStatistics* statistics, int workers, double* loss);

/// Fills factor. d_unit becomes the targets' part, zeros where there is none, and target_gradients
/// the targets' part of their centres' gradients. Of the centres as they are before this update.
void begin_gradients(const CudaDevice& device, const MarginSamples& s, const CudaCentreRows& rows,
                     const RowList& active, const MarginSoftmaxOptions& options,
                     double gradient_scale);

/// d_embeddings [N, D]: d_unit through the normalisation.
void finish_gradients(const CudaDevice& device, const MarginSamples& s, float* d_embeddings);

}  // namespace pfc
