// Converts the coordinator's state to journal messages and back.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "coordinator/jobs/job_queue.h"
#include "coordinator/rules/cluster_state.h"
#include "proto/journal.pb.h"

namespace pfc {

proto::SavedHost to_saved(const HostState& host);
/// Restores the host of this name, with its earlier slots, as last heard from at `heard`.
void restore(HostState& host, const proto::SavedHost& saved, TimePoint heard);

proto::SavedWorker to_saved(const WorkerState& worker);
/// Returns the worker without its progress.
WorkerState worker_from(const proto::SavedWorker& saved, TimePoint heard);

/// Returns the running job without its workers. REQUIRES: a job is running.
proto::SavedRun to_saved_run(const ClusterState& state, const std::string& cause, TimePoint now,
                             WallTime wall);
/// Restores the job and its network. REQUIRES: the hosts are restored; the workers follow. Sets
/// the times of requests and incidents to `now`, so that timeouts start again. Hosts without
/// workers must register again if a job is running, because their agents may be gone.
void restore(ClusterState& state, const proto::SavedRun& saved, TimePoint now, WallTime wall);

/// Restores the workers of a generation, by rank. Marks the generation as lost if one of them had
/// not begun to train, because the values needed to connect were in the killed coordinator's
/// memory; but not if a worker has ended well, because its work cannot be repeated.
void restore(GenerationState& generation, std::vector<WorkerState> workers);

proto::SavedJob to_saved(const Job& job);
Job job_from(const proto::SavedJob& saved);

proto::SavedEndedJobs to_saved(const std::deque<EndedJob>& jobs);
void restore(JobQueue& queue, const proto::SavedEndedJobs& saved);

}  // namespace pfc
