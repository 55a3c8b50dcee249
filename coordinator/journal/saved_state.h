// What the coordinator knows, as its journal keeps it, and back.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"
#include "coordinator/jobs/job_queue.h"
#include "proto/journal.pb.h"

namespace pfc {

proto::SavedHost to_saved(const HostState& host);
/// Into the host of this name. Its slots are what they were; it was heard of at `heard`.
void restore(HostState& host, const proto::SavedHost& saved, TimePoint heard);

proto::SavedWorker to_saved(const WorkerState& worker);
/// Without its progress.
WorkerState worker_from(const proto::SavedWorker& saved, TimePoint heard);

/// The job that runs, without its workers. REQUIRES: one runs.
proto::SavedRun to_saved_run(const ClusterState& state, const std::string& cause, TimePoint now,
                             WallTime wall);
/// Restores the job and its network. REQUIRES: the hosts are restored; the workers follow. What was
/// asked for or has happened at some time was at `now`, from which limits are counted. In a running
/// job, a host without workers joins only after its agent has registered again: nobody knows
/// whether that agent still lives.
void restore(ClusterState& state, const proto::SavedRun& saved, TimePoint now, WallTime wall);

/// The workers of the saved generation, by rank. It is lost where one of them has not begun to
/// train, because the values by which they connect were in the memory of the coordinator that was
/// killed; unless one has ended well, whose work cannot be repeated.
void restore(GenerationState& generation, std::vector<WorkerState> workers);

proto::SavedJob to_saved(const Job& job);
Job job_from(const proto::SavedJob& saved);

proto::SavedEndedJobs to_saved(const std::deque<EndedJob>& jobs);
void restore(JobQueue& queue, const proto::SavedEndedJobs& saved);

}  // namespace pfc
