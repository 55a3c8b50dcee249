// How a job goes on after a failure: what is waited for, and with whom the next generation begins.
// Pure functions.
#pragma once

#include <optional>

#include "coordinator/decisions/decision.h"

namespace pfc {

/// Whether the job may go on in another generation after what has happened in this one.
bool may_restart(const ClusterState& state, const RendezvousConfig& config);

/// Restarts that are left.
int restarts_left(const ClusterState& state, const RendezvousConfig& config);

/// REQUIRES: there is an incident, and may_restart().
Decision go_on(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

/// After a generation that was lost with its coordinator. No restart is counted. REQUIRES: there is
/// no incident.
Decision begin_again(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

/// What must be done before the workers of these members can connect; empty: nothing. A host whose
/// agent tells no address is reached by that of its connection.
std::optional<Decision> see_to_network(const ClusterState& state, const Plan& plan);
/// Whether the measurement that see_to_network() wants has failed.
bool network_failed(const ClusterState& state, const Plan& plan);
Incident network_problem(const ClusterState& state, TimePoint now);

}  // namespace pfc
