// Metrics of the current job and its hosts.
#pragma once

#include <optional>
#include <string>

#include "coordinator/metrics/families.h"
#include "coordinator/rules/cluster_state.h"
#include "coordinator/rules/decisions/decision.h"
#include "coordinator/rules/job_progress.h"
#include "coordinator/rules/progress/stragglers.h"

namespace pfc::metrics {

/// Inputs of the metrics at the time of a request.
struct Seen {
  const ClusterState& state;
  const RendezvousConfig& config;
  const JobProgress& progress;
  const Stragglers& stragglers;
  std::string state_name;  ///< of the job: "training"; "checking" if it is a check
  TimePoint now;
};

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

  /// Seconds since 1970; 0: none was published.
  [[nodiscard]] double last_checkpoint() const { return last_checkpoint_; }
  void restore_last_checkpoint(double seconds) { last_checkpoint_ = seconds; }
  CounterFamily* find_counter(const std::string& name);

 private:
  void set_membership(const Seen& seen);
  void set_training(const Seen& seen);
  void set_hosts(const Seen& seen);

  double last_checkpoint_ = 0;
  std::string job_id_;  ///< label of info_; empty: not set
  GaugeFamily& info_;
  GaugeFamily& state_;
  GaugeFamily& started_;
  GaugeFamily& generation_;
  GaugeFamily& restarts_left_;
  GaugeFamily& workers_;
  GaugeFamily& wanted_;
  GaugeFamily& idle_;
  GaugeFamily& left_out_;
  GaugeFamily& stragglers_;
  GaugeFamily& step_;
  GaugeFamily& steps_;
  GaugeFamily& epoch_;
  GaugeFamily& images_;
  GaugeFamily& lost_;
  GaugeFamily& remaining_;
  GaugeFamily& loss_;
  GaugeFamily& learning_rate_;
  GaugeFamily& gradient_norm_;
  GaugeFamily& loss_scale_;
  GaugeFamily& checkpoint_at_;
  GaugeFamily& checkpoint_time_;
  GaugeFamily& checkpoint_size_;
  GaugeFamily& host_up_;
  GaugeFamily& host_heard_;
  GaugeFamily& host_slots_;
  CounterFamily& restarts_;
  CounterFamily& checkpoints_;
  CounterFamily& checkpoint_seconds_;
  CounterFamily& checkpoint_held_;
  CounterFamily& checkpoint_bytes_;
};

}  // namespace pfc::metrics
