// A refused request and the reason. The service converts it to a gRPC status.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/clock.h"
#include "common/ids.h"

namespace pfc {

struct Refusal {
  enum class Kind {
    /// A failed precondition, such as another job or generation, or a full queue. The request
    /// fails until the condition named in the message has changed.
    kOldGeneration,
    kInvalid,      ///< a rank, key or size does not exist or is too large
    kTimeout,      ///< deadline exceeded; the message names what is missing
    kUnavailable,  ///< the coordinator is ending
    kDenied,       ///< no credential, or not authorized
    kInternal,     ///< internal error
  };
  Kind kind = Kind::kInvalid;
  std::string message;
};

/// Returns the refusal of every request while the coordinator ends.
Refusal going_away();

/// Receives the reply to a request, or its refusal. Called exactly once, on the event loop.
template <typename T>
using Answer = std::function<void(std::variant<T, Refusal>)>;

/// How long a caller waits for an answer.
class Patience {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a time alone is a plain deadline
  Patience(TimePoint deadline = TimePoint::max(), std::function<bool()> has_gone = {})
      : deadline_(deadline), has_gone_(std::move(has_gone)) {}

  /// Returns this patience with `limit` as its deadline, if that is earlier.
  [[nodiscard]] Patience until(TimePoint limit) const {
    return {std::min(deadline_, limit), has_gone_};
  }
  /// Returns whether the deadline has passed or the caller has gone.
  [[nodiscard]] bool is_over(TimePoint now) const {
    return deadline_ <= now || (has_gone_ && has_gone_());
  }
  [[nodiscard]] TimePoint deadline() const { return deadline_; }

 private:
  TimePoint deadline_;
  std::function<bool()> has_gone_;
};

/// The job and generation that a request belongs to.
struct Fence {
  std::string_view job_id;
  Generation generation = 0;
  std::string_view cause = {};  ///< what ended the last generation; empty: nothing
};

/// Returns whether the request is for this job; otherwise sets `why`. This fences off agents and
/// workers of an earlier coordinator.
bool of_this_job(std::string_view job_id, const Fence& current, Refusal& why);

/// Returns whether a worker's request is for the current job and generation; otherwise sets `why`.
/// This fences off workers that missed the end of a generation.
bool admitted(const Fence& theirs, const Fence& current, Refusal& why);

}  // namespace pfc
