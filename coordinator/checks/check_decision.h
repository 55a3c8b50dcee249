// Decides the coordinator's next action in a check (docs/check.md). A check has two generations.
// In the first, each worker tests its own host. In the second, the workers that have finished these
// tests connect as the job would. A failure on one host does not stop the tests of the others.
#pragma once

#include <chrono>

#include "coordinator/rules/decisions/decision.h"

namespace pfc {

struct CheckLimits {
  std::chrono::milliseconds gather{20'000};    ///< time for hosts to register
  std::chrono::milliseconds alone{60'000};     ///< time for the first generation
  std::chrono::milliseconds together{60'000};  ///< time for the second generation
};

/// Generation in which each worker tests its own host.
inline constexpr Generation kCheckAlone = 1;

/// Pure. REQUIRES: the job is a check.
Decision decide_check(const ClusterState& state, const RendezvousConfig& config,
                      const CheckLimits& limits, TimePoint now);

}  // namespace pfc
