// All-reduces slices of the flat gradient while the backward pass still makes the rest.
#pragma once

#include <cstdint>
#include <vector>

namespace pfc {

/// Has a Comm of its own, and on a CPU a thread of its own. Buckets are slices of the arena from
/// its end to its start, the same on every worker.
class GradReducer {
 public:
  virtual ~GradReducer() = default;
  /// All gradients from `offset` (elements) to the end are final: starts every bucket that is now
  /// whole, and returns. Throws CommError.
  virtual void ready(std::int64_t offset) = 0;
  /// Waits for all buckets of this step; on a GPU it is the compute stream that waits. Throws
  /// CommError.
  virtual void wait() = 0;

  /// When each bucket of the last step (on a GPU: the one before) was started and done, and when
  /// wait() was called: proves the overlap. Seconds since the first ready() of the step.
  struct Span {
    std::int64_t offset = 0, count = 0;
    double start = 0, end = 0;
  };
  struct Timeline {
    std::vector<Span> buckets;
    double wait_called = 0;  ///< the backward pass was over
    double wait_done = 0;
    [[nodiscard]] double busy_seconds() const;        ///< all buckets' time in the all-reduce
    [[nodiscard]] double overlapped_seconds() const;  ///< the part of it before wait() was called
  };
  [[nodiscard]] virtual const Timeline& timeline() const = 0;
};

}  // namespace pfc
