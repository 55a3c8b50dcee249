// How the workers of a job change although nothing has failed: hosts come, and hosts must be free.
// Pure functions.
#pragma once

#include <optional>

#include "coordinator/decisions/decision.h"

namespace pfc {

/// Ends the job after a checkpoint, because it cannot go on without a host that must be free.
/// Empty: there is no such host.
std::optional<Decision> stop_for_host(const ClusterState& state, const RendezvousConfig& config,
                                      TimePoint now);

/// Silent hosts without a worker are no failure: they have to register again. Empty: there are
/// none.
std::optional<Decision> release_silent(const ClusterState& state, const RendezvousConfig& config,
                                       TimePoint now);

/// What a host that must be free, or one that has come, changes in the current generation. Empty:
/// nothing.
std::optional<Decision> change_members(const ClusterState& state, const RendezvousConfig& config,
                                       TimePoint now);

/// The workers save their state, and go on in the next generation. REQUIRES: a regroup has begun.
Decision regroup(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

}  // namespace pfc
