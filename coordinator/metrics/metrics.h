// The coordinator's metrics in Prometheus' text format: of the job, its hosts and workers, and of
// the coordinator itself (docs/metrics.md).
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

  /// Updates counters and histograms by what `progress` adds to the worker's progress `before`.
  void add_progress(const WorkerState& before, const proto::Progress& progress, TimePoint now);
  /// A job, not a check, has begun.
  void begin_job();
  /// A generation has begun because of this.
  void count_restart(const Incident& cause);
  /// Counts a job: "completed", "stopped", "failed" or "refused".
  void count_job(const std::string& how);
  void set_waiting_jobs(std::size_t count);
  /// How often a coordinator was taken over, and how often the journal could not be written.
  void set_journal(int takeovers, std::uint64_t failures);
  /// Of the coordinator's own output.
  void set_dropped_lines(std::uint64_t count);
  /// Counters and histograms, for a coordinator that goes on counting in the place of this one.
  [[nodiscard]] proto::SavedMetrics saved() const;
  /// Adds what another one has counted.
  void restore(const proto::SavedMetrics& saved, TimePoint now);
  /// Another generation begins: what its workers have is told from now on. Counters stay.
  void begin_generation();
  /// Sets what is only looked at when somebody asks, and returns all metrics as /metrics serves
  /// them.
  std::string text(const metrics::Seen& seen);

 private:
  struct All;
  std::unique_ptr<All> all_;
};

}  // namespace pfc
