// What the coordinator does next, decided by one pure function, decide(): when a generation begins,
// what has ended it, and when the job ends. docs/cluster.md describes it in prose.
#pragma once

#include "coordinator/cluster_state.h"
#include "coordinator/decisions/decision.h"
#include "coordinator/decisions/restart.h"

namespace pfc {

/// Pure: no clock, lock or I/O. The caller applies each action to the state, carries it out, and
/// asks again, until there is nothing to do; and after every event and several times a second.
Decision decide(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

/// What the action changes in the state. Pure, apart from the state.
void apply(ClusterState& state, const Action& action, TimePoint now);

}  // namespace pfc
