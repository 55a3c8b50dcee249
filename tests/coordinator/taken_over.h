// A successor's view of a cluster after its coordinator was killed.
#pragma once

#include <utility>
#include <vector>

#include "coordinator/journal/saved_state.h"

namespace pfc::testing {

/// Built only from the journal's values; progress is up to date.
inline ClusterState taken_over(const ClusterState& state, TimePoint now, WallTime wall) {
  ClusterState next;
  for (const HostState& host : state.hosts) {
    HostState& copy = next.hosts.emplace_back();
    copy.name = host.name;
    restore(copy, saved(host), now);
  }
  Run run;
  restore_run(next, run, saved_run(state, run, now, wall), now, wall);
  std::vector<WorkerState> workers;
  for (const WorkerState& worker : state.job.current.workers) {
    workers.push_back(worker_from(saved(worker), now));
    workers.back().progress = worker.progress;
  }
  restore(next.job.current, std::move(workers));
  return next;
}

}  // namespace pfc::testing
