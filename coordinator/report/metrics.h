// The metrics of the job in Prometheus' text format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/cluster_state.h"
#include "coordinator/progress/stragglers.h"
#include "coordinator/rendezvous.h"
#include "coordinator/report/job_progress.h"
#include "proto/journal.pb.h"

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
  /// How often a coordinator was taken over, and how often the journal could not be written.
  void set_journal(int takeovers, std::uint64_t failures);
  /// Counters and histograms, for a coordinator that goes on counting in the place of this one.
  [[nodiscard]] proto::SavedMetrics saved() const;
  /// Adds what another one has counted.
  void restore(const proto::SavedMetrics& saved);
  /// The job has ended: its workers have no values any more. Counters stay.
  void forget_workers();
  /// Sets the gauges from the state, and returns all metrics as /metrics serves them.
  /// `dropped_lines`: of the coordinator's own output.
  std::string text(const ClusterState& state, const RendezvousConfig& config,
                   const JobProgress& progress, const Stragglers& stragglers,
                   std::uint64_t dropped_lines, TimePoint now);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace pfc
