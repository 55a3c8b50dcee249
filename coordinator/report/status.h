// The cluster's state as pfcctl status, the status page and /status.json show it.
#pragma once

#include <string>

#include "coordinator/cluster_state.h"
#include "coordinator/rendezvous.h"
#include "coordinator/report/job_progress.h"

namespace pfc {

/// `reason` is that of the last decision. `finished`: the job has ended.
proto::StatusReply make_status(const ClusterState& state, const RendezvousConfig& config,
                               const JobProgress& progress, const std::string& reason,
                               bool finished, TimePoint now);

/// "training": a job's, as StatusReply has it. `finished`: it has ended.
std::string state_name(const ClusterState& state, const RendezvousConfig& config, bool finished);

/// starting, joined, training, "no progress" (neither its step nor its phase has changed for
/// kNoProgress), leaving (for the next generation), completed, stopped, failed or exited.
std::string worker_state_name(const WorkerState& worker, TimePoint now);

}  // namespace pfc
