// A distribution as TensorBoard shows it.
#pragma once

#include <span>
#include <vector>

namespace pfc {

/// Values from `left` to `right`, which belongs to the next bucket, or to this one where it is the
/// last.
struct HistogramBucket {
  double left = 0, right = 0, count = 0;
};

inline constexpr int kHistogramBuckets = 30;

struct Distribution {
  std::vector<HistogramBucket> buckets;  ///< empty: there was no finite value
  double mean = 0;                       ///< of the finite values
};

/// kHistogramBuckets of one width from the smallest value to the largest. Where all are equal, all
/// buckets are that point, and the last one has the count, as TensorBoard's own writer does it.
/// Values that are not finite are left out.
Distribution distribution_of(std::span<const float> values);

}  // namespace pfc
