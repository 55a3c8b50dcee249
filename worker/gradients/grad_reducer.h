// All-reduces the backbone's gradients slice by slice, while the backward pass still computes the
// rest.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.h"

namespace pfc {

struct GradReducerOptions {
  std::int64_t bucket_bytes = 0;  ///< 0: default_bucket_bytes()
};

/// Returns the bucket size for `gradient_bytes` of gradients: a sixteenth of them, so that the
/// reduction of a small network overlaps its backward pass too. At least 512 KiB, because of the
/// latency of a message. At most 8 MiB, because larger messages are no faster.
std::int64_t default_bucket_bytes(std::int64_t gradient_bytes);

/// A slice of the flat gradient that is reduced at once: elements [offset, offset + count).
struct GradBucket {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// Returns all buckets in the order of their reduction: from the end of the flat gradient, which
/// the backward pass computes first, to its start. All have the same size except the last, which
/// may be smaller. The last bucket is reduced after the backward pass, so its size matters most.
std::vector<GradBucket> make_grad_buckets(const Tensor& gradients,
                                          const GradReducerOptions& options);

/// Uses its own communicator, and on a CPU its own thread. The buckets are the same on every
/// worker. All members belong to the training thread.
class GradReducer {
 public:
  virtual ~GradReducer() = default;
  /// The gradients from `offset` (in elements) to the end are final. Starts the reduction of every
  /// bucket that has become complete, and returns. Throws CommError.
  virtual void ready(std::int64_t offset) = 0;
  /// Waits until all buckets of this step are reduced. On a GPU the compute stream waits, and the
  /// host does not. Throws CommError. REQUIRES: ready(0) was called.
  virtual void wait() = 0;

  /// When a bucket was reduced, in seconds since the first ready() of the step.
  struct Span {
    std::int64_t offset = 0, count = 0;
    double start = 0, end = 0;
  };
  struct Timeline {
    std::vector<Span> buckets;
    double wait_called = 0;  ///< when wait() was called: the backward pass was over
    double wait_done = 0;    ///< when the last bucket was reduced
    [[nodiscard]] double busy_seconds() const;  ///< the sum of the buckets' times
    /// The part of this time before wait() was called.
    [[nodiscard]] double overlapped_seconds() const;
  };
  /// The times of the last step. On a GPU, the times of the newest step that was complete when the
  /// last step began, because reading those of the last step would make the host wait.
  [[nodiscard]] virtual const Timeline& timeline() const = 0;
};

}  // namespace pfc
