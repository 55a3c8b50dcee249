// Planned changes of membership: hosts that join and hosts that are drained. Pure functions.
#pragma once

#include <optional>

#include "coordinator/rules/decisions/decision.h"

namespace pfc {

/// If the job cannot continue without a host that is being drained, returns the decision to stop
/// it after a checkpoint. Otherwise returns nothing.
std::optional<Decision> stop_for_host(const ClusterState& state, const RendezvousConfig& config,
                                      TimePoint now);

/// Requires silent hosts without a worker to register again; their silence is not a failure.
/// Returns nothing if there are no such hosts.
std::optional<Decision> release_silent(const ClusterState& state, const RendezvousConfig& config,
                                       TimePoint now);

/// If a host of the current generation is drained, or a new host can join, returns the next step of
/// that change. Otherwise returns nothing.
std::optional<Decision> change_members(const ClusterState& state, const RendezvousConfig& config,
                                       TimePoint now);

/// Lets the workers save and continue in the next generation. REQUIRES: a regroup has begun.
Decision regroup(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

}  // namespace pfc
