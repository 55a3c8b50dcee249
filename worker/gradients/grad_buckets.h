// How the flat gradient is cut into the slices that are reduced together.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.h"

namespace pfc {

struct GradReducerOptions {
  std::int64_t bucket_bytes = 0;  ///< 0: default_bucket_bytes()
};

/// A sixteenth of the gradients, so that a small network's reduction overlaps its backward pass as
/// well, but at least 512 KiB (latency) and at most 8 MiB (nothing is gained beyond).
std::int64_t default_bucket_bytes(std::int64_t gradient_bytes);

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
