// How a job continues after a failure: what it waits for, and the members of the next generation.
// Pure functions.
#pragma once

#include <optional>

#include "coordinator/rules/decisions/decision.h"

namespace pfc {

/// Returns whether the job may continue in another generation.
bool may_restart(const ClusterState& state, const RendezvousConfig& config);

/// Returns the number of restarts left.
int restarts_left(const ClusterState& state, const RendezvousConfig& config);

/// REQUIRES: there is an incident, and may_restart().
Decision go_on(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

/// Continues after a generation that was lost with its coordinator. This does not count as a
/// restart. REQUIRES: the state has no incident.
Decision begin_again(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

/// Returns the decision to measure the network between these members, or to wait for the
/// measurement. Returns nothing if no measurement is needed; the last measurement may have
/// failed (network_failed()). A host without reported addresses is reached by the address of its
/// connection.
std::optional<Decision> see_to_network(const ClusterState& state, const Plan& plan);
/// Returns whether the measurement required by see_to_network() has failed.
bool network_failed(const ClusterState& state, const Plan& plan);
Incident network_problem(const ClusterState& state, TimePoint now);

}  // namespace pfc
