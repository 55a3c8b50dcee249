// Saves the coordinator's state as bytes for the journal, and restores it.
//
// Hosts, workers and the run are saved as fields in a fixed order, without names. Only a
// coordinator with the same kStateFormat takes over such a journal. Start times of timeouts are
// not saved: a takeover sets them to the current time. The journal's checksums protect the bytes;
// these functions never throw, and missing bytes become 0 or empty.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/cluster/cluster.h"

namespace pfc {

/// Add 1 whenever a saved field of saved_state.cc is added, removed or moved, or an enum changes.
inline constexpr int kStateFormat = 2;

std::string saved(const HostState& host);
/// Restores the host, except its name. `heard`: time of its last message.
void restore(HostState& host, std::string_view bytes, TimePoint heard);

/// Saves the worker without its progress.
std::string saved(const WorkerState& worker);
WorkerState worker_from(std::string_view bytes, TimePoint heard);

/// Saves the running job without its workers and configuration. REQUIRES: a job is running.
std::string saved_run(const ClusterState& state, const Run& run, TimePoint now, WallTime wall);
/// Restores the job and its network. REQUIRES: the hosts are restored; the workers follow. Sets
/// the times of requests and incidents to `now`, so that timeouts start again. Hosts without
/// workers must register again if a job is running, because their agents may be gone.
void restore_run(ClusterState& state, Run& run, std::string_view bytes, TimePoint now,
                 WallTime wall);

/// Restores the workers of a generation, by rank. Marks the generation as lost if a worker had not
/// begun to train, because the data that it needs to connect were only in the killed coordinator's
/// memory. Never marks a generation in which a worker has ended well, because that worker's part
/// cannot be repeated.
void restore(GenerationState& generation, std::vector<WorkerState> workers);

/// Saves the job as a SavedJob, which coordinators of other versions read too.
std::string saved(const Job& job);
Job job_from(std::string_view bytes);

}  // namespace pfc
