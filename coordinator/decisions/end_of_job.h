// How a job ends: after a failure that no restart follows, and after a stop. Pure functions.
#pragma once

#include "coordinator/decisions/decision.h"

namespace pfc {

/// Whether all that is known is that workers have lost a peer.
bool cause_is_unknown(const ClusterState& state);

/// REQUIRES: there is an incident, and the job is not to be restarted.
Decision end_after_failure(const ClusterState& state, const RendezvousConfig& config,
                           TimePoint now);

/// REQUIRES: a stop was asked for, and there is no incident.
Decision end_after_stop(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

/// SIGTERM to the workers; after RendezvousConfig::terminate SIGKILL; after another while the job
/// ends without them.
Decision end_by_force(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

}  // namespace pfc
