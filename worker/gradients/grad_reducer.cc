#include "worker/gradients/grad_reducer.h"

#include <algorithm>

#include "common/error.h"

namespace pfc {

std::int64_t default_bucket_bytes(std::int64_t gradient_bytes) {
  constexpr std::int64_t kLeast = 512 << 10;
  constexpr std::int64_t kMost = 8 << 20;
  constexpr std::int64_t kPage = 4096;
  return std::clamp(gradient_bytes / 16 / kPage * kPage, kLeast, kMost);
}

std::vector<GradBucket> make_grad_buckets(const Tensor& gradients,
                                          const GradReducerOptions& options) {
  const std::int64_t bytes =
      options.bucket_bytes > 0 ? options.bucket_bytes
                               : default_bucket_bytes(static_cast<std::int64_t>(gradients.bytes()));
  const std::int64_t most = bytes / static_cast<std::int64_t>(sizeof(float));
  check(most > 0, "GradReducer: bucket_bytes holds no element");
  std::vector<GradBucket> buckets;
  for (std::int64_t end = gradients.elements(); end > 0; end -= buckets.back().count) {
    const std::int64_t count = std::min(end, most);
    buckets.push_back({end - count, count});
  }
  return buckets;
}

double GradReducer::Timeline::busy_seconds() const {
  double seconds = 0;
  for (const Span& b : buckets) seconds += b.end - b.start;
  return seconds;
}

double GradReducer::Timeline::overlapped_seconds() const {
  double seconds = 0;
  for (const Span& b : buckets) seconds += std::max(0.0, std::min(b.end, wait_called) - b.start);
  return seconds;
}

}  // namespace pfc
