// Inputs of the metrics at the time of a request.
#pragma once

#include <string>

#include "common/clock.h"
#include "coordinator/metrics/families.h"
#include "coordinator/rules/cluster_state.h"
#include "coordinator/rules/decisions/decision.h"
#include "coordinator/rules/job_progress.h"
#include "coordinator/rules/progress/stragglers.h"

namespace pfc::metrics {

struct Seen {
  const ClusterState& state;
  const RendezvousConfig& config;
  const JobProgress& progress;
  const Stragglers& stragglers;
  std::string state_name;  ///< state of the job: "training"; "checking" if it is a check
  TimePoint now;
  WallTime wall = wall_now();  ///< the time of day at `now`

  /// Converts a time of the steady clock to seconds since 1970.
  [[nodiscard]] double unix_time(TimePoint time) const {
    return unix_seconds(wall) - seconds_since(time, now);
  }
};

}  // namespace pfc::metrics
