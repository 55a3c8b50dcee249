// How the flat gradient is cut into the slices that are reduced together.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.h"
#include "worker/gradients/grad_reducer.h"

namespace pfc {

/// A slice of the gradients, [offset, offset + count) elements.
struct GradBucket {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// In the order of their reduction: from the end, where gradients are ready first. So the last one,
/// whose reduction nothing hides any more, is the one that may be small.
std::vector<GradBucket> make_grad_buckets(const Tensor& gradients,
                                          const GradReducerOptions& options);

}  // namespace pfc
