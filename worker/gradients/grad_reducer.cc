#include "worker/gradients/grad_reducer.h"

#include <algorithm>

namespace pfc {

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
