// Metrics of the current job and its hosts.
#pragma once

#include <string>
#include <vector>

#include "coordinator/metrics/families.h"
#include "coordinator/metrics/seen.h"

namespace pfc::metrics {

/// Returns "crash", "silence", "host_lost" or "connection_lost".
std::string cause_of(const Incident& incident);

class JobMetrics {
 public:
  explicit JobMetrics(Registry& registry);
  JobMetrics(const JobMetrics&) = delete;
  JobMetrics& operator=(const JobMetrics&) = delete;

  /// Removes the checkpoint metrics of the previous job.
  void begin_job();
  /// Counts a generation that began because of this failure.
  void count_restart(const Incident& cause);
  /// Adds the difference between rank 0's new report `told` and its last one `before`.
  void add_checkpoints(const proto::Progress& before, const proto::Progress& told);
  void set(const Seen& seen);

  /// Time of the last published checkpoint, in seconds since 1970; 0: none.
  [[nodiscard]] double last_checkpoint() const { return last_checkpoint_; }
  void restore_last_checkpoint(double seconds) { last_checkpoint_ = seconds; }
  CounterFamily* find_counter(const std::string& name);

 private:
  double last_checkpoint_ = 0;
  std::string job_id_;  ///< label of info_; empty: not set
  GaugeFamily& info_;
  GaugeFamily& state_;
  GaugeFamily& started_;
  const std::vector<Metric<GaugeFamily, Seen>> membership_;
  const std::vector<Metric<GaugeFamily, JobProgress>> training_;
  GaugeFamily& checkpoint_at_;
  const std::vector<Metric<GaugeFamily, proto::CheckpointTotal>> newest_checkpoint_;
  const std::vector<Metric<GaugeFamily, HostState, Seen>> hosts_;  ///< if unknown, the gauge stays
  CounterFamily& restarts_;
  const std::vector<Metric<CounterFamily, proto::CheckpointTotal>> checkpoints_;
};

}  // namespace pfc::metrics
