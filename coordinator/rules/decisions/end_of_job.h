// How a job ends after a stop, or after a failure without a restart. Pure functions.
#pragma once

#include "coordinator/rules/decisions/decision.h"

namespace pfc {

/// Returns whether all known failures are lost peers, so that the real cause is not known yet.
bool cause_is_unknown(const ClusterState& state);

/// REQUIRES: there is an incident, and the job is not restarted.
Decision end_after_failure(const ClusterState& state, const RendezvousConfig& config,
                           TimePoint now);

/// REQUIRES: a stop was requested, and there is no incident.
Decision end_after_stop(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

/// Sends SIGTERM to the workers, SIGKILL after RendezvousConfig::terminate, and ends the job
/// without them after RendezvousConfig::kill.
Decision end_by_force(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

}  // namespace pfc
