// A request that the coordinator refuses, and why. The service turns it into a gRPC status.
#pragma once

#include <functional>
#include <string>
#include <variant>

#include "common/ids.h"

namespace pfc {

struct Refusal {
  enum class Kind {
    kOldGeneration,  ///< this or another precondition: asking again will not help
    kInvalid,        ///< a rank, key or size that does not exist or is too large
    kTimeout,        ///< the time limit of a wait is over; the message names what is missing
    kUnavailable,    ///< the coordinator is ending
  };
  Kind kind = Kind::kInvalid;
  std::string message;
};

/// Takes the reply to a request, or its refusal. Called exactly once, on the event loop.
template <typename T>
using Answer = std::function<void(std::variant<T, Refusal>)>;

/// Every request must come from the current generation, or from a sender without one (0): so
/// workers and agents that missed the end of a generation cannot disturb the next. Returns whether
/// it does; if not, fills in `why`.
inline bool admitted(Generation theirs, Generation current, Refusal& why) {
  if (theirs == 0 || theirs == current) return true;
  why = {.kind = Refusal::Kind::kOldGeneration,
         .message = "generation " + std::to_string(theirs) + " is not the current one, which is " +
                    std::to_string(current) + ": leave it and join again"};
  return false;
}

}  // namespace pfc
