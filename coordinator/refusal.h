// A request that the coordinator refuses, and why. The service turns it into a gRPC status.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "common/ids.h"

namespace pfc {

struct Refusal {
  enum class Kind {
    kOldGeneration,  ///< this, another job, or another precondition: asking again will not help
    kInvalid,        ///< a rank, key or size that does not exist or is too large
    kTimeout,        ///< the time limit of a wait is over; the message names what is missing
    kUnavailable,    ///< the coordinator is ending
    kDenied,         ///< the caller's credential does not allow it, or it has none
    kInternal,       ///< an error of the coordinator
  };
  Kind kind = Kind::kInvalid;
  std::string message;
};

/// To everything that is asked of a coordinator that ends.
Refusal going_away();

/// Takes the reply to a request, or its refusal. Called exactly once, on the event loop.
template <typename T>
using Answer = std::function<void(std::variant<T, Refusal>)>;

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
