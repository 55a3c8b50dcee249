// A request that the coordinator refuses, and why. The service turns it into a gRPC status.
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
    /// This, another job, or another precondition: the same request will not be granted before
    /// something else has happened, as the message says (a queue has room, a worker joins again).
    kOldGeneration,
    kInvalid,      ///< a rank, key or size that does not exist or is too large
    kTimeout,      ///< the time limit of a wait is over; the message names what is missing
    kUnavailable,  ///< the coordinator is ending
    kDenied,       ///< the caller's credential does not allow it, or it has none
    kInternal,     ///< an error of the coordinator
  };
  Kind kind = Kind::kInvalid;
  std::string message;
};

/// To everything that is asked of a coordinator that ends.
Refusal going_away();

/// Takes the reply to a request, or its refusal. Called exactly once, on the event loop.
template <typename T>
using Answer = std::function<void(std::variant<T, Refusal>)>;

/// How long the one who asks waits for the answer.
class Patience {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a time alone is one that does not end early
  Patience(TimePoint deadline = TimePoint::max(), std::function<bool()> has_gone = {})
      : deadline_(deadline), has_gone_(std::move(has_gone)) {}

  /// The same, but no longer than until then.
  [[nodiscard]] Patience until(TimePoint limit) const {
    return {std::min(deadline_, limit), has_gone_};
  }
  /// The time has come, or nobody waits any more.
  [[nodiscard]] bool is_over(TimePoint now) const {
    return deadline_ <= now || (has_gone_ && has_gone_());
  }
  [[nodiscard]] TimePoint deadline() const { return deadline_; }

 private:
  TimePoint deadline_;
  std::function<bool()> has_gone_;
};

/// What a request belongs to: a job, and a generation of it.
struct Fence {
  std::string_view job_id;
  Generation generation = 0;
  std::string_view cause = {};  ///< what has ended the generation before; empty: nothing has
};

/// Every request must come from this job, so that agents and workers of a coordinator that has
/// ended cannot disturb the next one. Returns whether it does; if not, fills in `why`.
bool of_this_job(std::string_view job_id, const Fence& current, Refusal& why);

/// And a worker's requests from the current generation, so that workers that missed the end of one
/// cannot disturb the next. Returns whether it does; if not, fills in `why`.
bool admitted(const Fence& theirs, const Fence& current, Refusal& why);

}  // namespace pfc
