// The distillation of logits on a GPU (kernels/margin/logit_distillation.h): passes over a tile's
// products of the network and of its teacher.
#pragma once

#include <cstdint>

#include "kernels/cuda/margin/centre_table_view.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/margin/logit_distillation.h"
#include "kernels/tensor.h"

namespace pfc {

/// Products [classes, samples] of each of the network's centres (not normalised) with each
/// normalised embedding, and the teacher's cosines, in device memory. `samples` is padded to a
/// multiple of 8.
struct DistilledProducts {
  std::int64_t classes = 0;
  std::int64_t samples = 0;
  const float* products = nullptr;
  const float* inverse_norms = nullptr;  ///< [classes]
  const float* cosines = nullptr;
  float scale = 1.f;  ///< scale of the logits / temperature
};

/// Copies rows 0 to count - 1 of the list from the teacher's centres [R, D] to `to` [at least
/// count, at least D] of the same type, and fills the rest of `to` with zeros.
void gather_teacher(const CudaDevice& device, const Tensor& centres, const RowList& active,
                    std::int64_t count, const Tensor& to);

/// Adds a tile to sums [3, slots, samples], which hold DistilledSums. If `first`, overwrites them.
void fold_distilled(const CudaDevice& device, const DistilledProducts& tile, double* sums,
                    int slots, bool first);

/// Fills out [3, samples] with the sums over the slots; with zeros if slots is 0. `padded`: number
/// of samples in `sums`.
void write_distilled_sums(const CudaDevice& device, const double* sums, int slots,
                          std::int64_t samples, std::int64_t padded, float* out);

/// sums: [3, samples], over all workers. Fills inverse_sums [2, padded] with the reciprocals of the
/// network's and of the teacher's sums, and *loss with the sum of the samples' losses.
void combine_distilled(const CudaDevice& device, const float* sums, std::int64_t samples,
                       std::int64_t padded, double temperature, float* inverse_sums, double* loss);

/// Adds the gradients of the tile to `out` [at least the tile's classes, samples], the factors of
/// make_factors(). factor: distilled_factor().
void add_distilled_factors(const CudaDevice& device, const DistilledProducts& tile,
                           const float* inverse_sums, float factor, const Tensor& out);

}  // namespace pfc
