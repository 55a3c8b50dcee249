// Who is late, by the coordinator's own monotonic clock alone.
#pragma once

#include <chrono>
#include <optional>

#include "coordinator/cluster_state.h"

namespace pfc {

struct HealthLimits {
  std::chrono::milliseconds start{60'000};    ///< hosts to register, workers to join
  std::chrono::milliseconds silence{30'000};  ///< heartbeats come every second
  std::chrono::milliseconds leave{30'000};    ///< from a worker's last report to its exit
};

/// The worker sent progress. That it arrives is liveness; that step or phase changed is movement.
void worker_progressed(WorkerState& worker, const proto::Progress& progress, TimePoint now);

/// The first thing that has taken longer than its limit, named. Pure.
std::optional<Failure> find_overdue(const ClusterState& state, const HealthLimits& limits,
                                    TimePoint now);

/// When peers complain about a broken connection: the worker that has been silent for more than a
/// few heartbeats, or else one that is alive but has not moved for as long. Pure.
std::optional<Failure> find_suspect(const ClusterState& state, TimePoint now);

/// "run there: pfc-agent --coordinator 10.0.0.1:7450 --host b"
std::string agent_command(const std::string& coordinator, const std::string& host);

/// "last seen at step 120 in all_gather"; empty before the first progress.
std::string last_seen(const WorkerState& worker);

}  // namespace pfc
