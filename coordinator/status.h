// The state as pfcctl, the status page and scripts see it.
#pragma once

#include <string>

#include "coordinator/cluster_state.h"
#include "coordinator/job_progress.h"
#include "coordinator/rendezvous.h"

namespace pfc {

/// `reason` is that of the last decision; `finished`: no more decisions follow.
proto::StatusReply make_status(const ClusterState& state, const JobProgress& progress,
                               const std::string& reason, bool finished, TimePoint now);

/// One word: starting, joined, training, completed, stopped, failed, exited.
std::string worker_state_name(const WorkerState& worker);

}  // namespace pfc
