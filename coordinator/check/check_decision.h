// What the coordinator does next while a check runs (docs/check.md). A check has two generations:
// in the first each worker looks at its host and needs no other; in the second those that have done
// so connect as the job would. Whatever goes wrong on one host, the others are looked at.
#pragma once

#include <chrono>

#include "coordinator/decisions/decision.h"

namespace pfc {

struct CheckLimits {
  std::chrono::milliseconds gather{20'000};    ///< for hosts to register
  std::chrono::milliseconds alone{60'000};     ///< for the workers of the first generation
  std::chrono::milliseconds together{60'000};  ///< for those of the second
};

/// The generation in which each worker looks at its host.
inline constexpr Generation kCheckAlone = 1;

/// Pure. REQUIRES: the job is a check.
Decision decide_check(const ClusterState& state, const RendezvousConfig& config,
                      const CheckLimits& limits, TimePoint now);

}  // namespace pfc
