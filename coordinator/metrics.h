// The numbers of the job in Prometheus' format.
#pragma once

#include <memory>
#include <string>

#include "coordinator/cluster_state.h"
#include "coordinator/job_progress.h"

namespace pfc {

/// On the event loop only.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  /// Counters and histograms: what `progress` adds to what the worker had told before.
  void add_progress(const WorkerState& before, const proto::Progress& progress);
  /// Gauges of the whole job and of each worker; then everything, as /metrics serves it.
  std::string text(const ClusterState& state, const JobProgress& progress);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace pfc
