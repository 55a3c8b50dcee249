#include "worker/tensorboard/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace pfc {

Distribution distribution_of(std::span<const float> values) {
  std::vector<double> finite;
  finite.reserve(values.size());
  double sum = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    finite.push_back(static_cast<double>(value));
    sum += finite.back();
  }
  Distribution d;
  if (finite.empty()) return d;
  d.mean = sum / static_cast<double>(finite.size());
  const auto [least, most] = std::ranges::minmax(finite);
  const double width = (most - least) / kHistogramBuckets;
  const auto edge = [&](int i) { return i == kHistogramBuckets ? most : least + i * width; };
  for (int i = 0; i < kHistogramBuckets; ++i) {
    d.buckets.push_back({.left = edge(i), .right = edge(i + 1)});
  }
  for (const double value : finite) {
    const int bucket = width > 0 ? static_cast<int>((value - least) / width) : kHistogramBuckets;
    ++d.buckets[static_cast<std::size_t>(std::min(bucket, kHistogramBuckets - 1))].count;
  }
  return d;
}

}  // namespace pfc
