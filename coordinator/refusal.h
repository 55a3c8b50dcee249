// Why the coordinator says no: what the service turns into a gRPC status.
#pragma once

#include <functional>
#include <string>
#include <variant>

#include "common/ids.h"

namespace pfc {

struct Refusal {
  enum class Kind {
    kOldGeneration,  ///< or another precondition: asking again will not help
    kInvalid,        ///< a rank, key or size that cannot be
    kTimeout,        ///< a bounded wait is over; the message names what is missing
    kUnavailable,    ///< the coordinator is going away
  };
  Kind kind = Kind::kInvalid;
  std::string message;
};

/// Called exactly once, on the event loop.
template <typename T>
using Answer = std::function<void(std::variant<T, Refusal>)>;

/// The rule that fences stragglers, for every request there is: it must come from the current
/// generation, or from nobody's (0). Returns whether it does; if not, fills in why.
inline bool admitted(Generation theirs, Generation current, Refusal& why) {
  if (theirs == 0 || theirs == current) return true;
  why = {.kind = Refusal::Kind::kOldGeneration,
         .message = "generation " + std::to_string(theirs) + " is not the current one, which is " +
                    std::to_string(current) + ": leave it and join again"};
  return false;
}

}  // namespace pfc
