// The coordinator's metrics in Prometheus' text format: job, hosts, workers and the coordinator
// itself (docs/metrics.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/metrics/job_metrics.h"
#include "proto/journal.pb.h"

namespace pfc {

/// Used on the event loop only.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  /// Adds the difference between `progress` and the worker's last progress, `before`.
  void add_progress(const WorkerState& before, const proto::Progress& progress, TimePoint now);
  /// Called when a job begins that is not a check.
  void begin_job();
  /// Counts a generation that began because of this failure.
  void count_restart(const Incident& cause);
  /// Counts a job: "completed", "stopped", "failed" or "refused".
  void count_job(const std::string& how);
  void set_waiting_jobs(std::size_t count);
  /// Sets the number of takeovers and of failed journal writes.
  void set_journal(int takeovers, std::uint64_t failures);
  /// Sets the number of dropped lines of the coordinator's output.
  void set_dropped_lines(std::uint64_t count);
  /// Returns counters and histograms, for a coordinator that takes over.
  [[nodiscard]] proto::SavedMetrics saved() const;
  /// Adds the counts of the coordinator that was taken over.
  void restore(const proto::SavedMetrics& saved, TimePoint now);
  /// Begins a generation: removes the workers' gauges. Counters stay.
  void begin_generation();
  /// Updates the values that are only read on request, and returns all metrics as /metrics serves
  /// them.
  std::string text(const metrics::Seen& seen);

 private:
  struct All;
  std::unique_ptr<All> all_;
};

}  // namespace pfc
