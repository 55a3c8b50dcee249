// The metrics of the job in Prometheus' text format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/cluster_state.h"
#include "coordinator/rendezvous.h"
#include "coordinator/report/job_progress.h"

namespace pfc {

/// Used on the event loop only.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  /// Updates counters and histograms by what `progress` adds to the worker's progress `before`.
  void add_progress(const WorkerState& before, const proto::Progress& progress);
  /// Counts a job: "completed", "stopped", "failed" or "refused".
  void count_job(const std::string& how);
  void set_waiting_jobs(std::size_t count);
  /// The job has ended: its workers have no values any more. Counters stay.
  void forget_workers();
  /// Sets the gauges from the state, and returns all metrics as /metrics serves them.
  /// `dropped_lines`: of the coordinator's own output.
  std::string text(const ClusterState& state, const RendezvousConfig& config,
                   const JobProgress& progress, std::uint64_t dropped_lines, TimePoint now);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace pfc
