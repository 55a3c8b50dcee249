// All-reduces slices of the flat gradient while the backward pass still makes the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/ops.h"
#include "worker/comm/comm.h"

namespace pfc {

struct GradReducerOptions {
  std::int64_t bucket_bytes = 0;  ///< 0: default_bucket_bytes()
};

/// A sixteenth of the gradients, so that a small network's reduction overlaps its backward pass as
/// well, but at least 512 KiB (latency) and at most 8 MiB (nothing is gained beyond).
std::int64_t default_bucket_bytes(std::int64_t gradient_bytes);

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

/// For one worker it does nothing. comm and ops are borrowed; comm is used by the reducer only.
std::unique_ptr<GradReducer> make_grad_reducer(Ops& ops, Comm& comm, const Tensor& gradients,
                                               const GradReducerOptions& options = {});

}  // namespace pfc
