// The cluster's state for pfcctl status, the status page and /status.json.
#pragma once

#include <string>

#include "coordinator/rules/cluster_state.h"
#include "coordinator/rules/job_progress.h"
#include "coordinator/rules/rendezvous.h"

namespace pfc {

/// `reason`: of the last decision. `finished`: the job has ended.
proto::StatusReply make_status(const ClusterState& state, const RendezvousConfig& config,
                               const JobProgress& progress, const std::string& reason,
                               bool finished, TimePoint now);

/// Returns the job's state as in StatusReply: "training". `finished`: the job has ended.
std::string state_name(const ClusterState& state, const RendezvousConfig& config, bool finished);

/// Returns starting, joined, training, "no progress" (WorkerState::last_moved is kNoProgress ago),
/// leaving (for the next generation), completed, stopped, failed or exited.
std::string worker_state_name(const WorkerState& worker, TimePoint now);

}  // namespace pfc
