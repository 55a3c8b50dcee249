// Computes histograms as TensorBoard displays them.
#pragma once

#include <span>
#include <vector>

namespace pfc {

/// Values from `left` to `right`. Only the last bucket includes `right` itself.
struct HistogramBucket {
  double left = 0, right = 0, count = 0;
};

inline constexpr int kHistogramBuckets = 30;

struct Distribution {
  std::vector<HistogramBucket> buckets;  ///< empty if there was no finite value
  double mean = 0;                       ///< mean of the finite values
};

/// Returns kHistogramBuckets of equal width from the smallest to the largest value. If all values
/// are equal, all buckets are that point and the last one has the count, as in TensorBoard's own
/// writer. Ignores values that are not finite.
Distribution distribution_of(std::span<const float> values);

}  // namespace pfc
