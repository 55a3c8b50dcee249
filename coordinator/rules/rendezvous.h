// The coordinator's decision function: when a generation begins, what ended it, and when the job
// ends. Described in docs/cluster.md.
#pragma once

#include "coordinator/rules/cluster_state.h"
#include "coordinator/rules/decisions/decision.h"
#include "coordinator/rules/decisions/restart.h"

namespace pfc {

/// Pure: no clock, locks or I/O. The caller applies each action to the state, executes it, and
/// calls decide() again until there is nothing to do. It does this after every event and several
/// times a second.
Decision decide(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

/// Applies an action to the state. No other side effects.
void apply(ClusterState& state, const Action& action, TimePoint now);

}  // namespace pfc
