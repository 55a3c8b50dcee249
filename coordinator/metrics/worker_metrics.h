// Metrics of each worker, with labels rank and host.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/metrics/families.h"
#include "coordinator/metrics/seen.h"
#include "coordinator/rules/cluster_state.h"
#include "proto/coordinator.pb.h"

namespace pfc::metrics {

/// Keeps the last values of an ended worker for the time kKept, so that all readers see them, and
/// then removes its time series. This bounds the number of series by the number of slots of all
/// hosts.
class WorkerMetrics {
 public:
  static constexpr std::chrono::seconds kKept{60};

  explicit WorkerMetrics(Registry& registry);
  WorkerMetrics(const WorkerMetrics&) = delete;
  WorkerMetrics& operator=(const WorkerMetrics&) = delete;

  /// Adds the difference between `told` and the worker's last progress in `before`.
  void add(const WorkerState& before, const proto::Progress& told, TimePoint now);
  /// Sets the gauges of the current generation's workers, and removes old series.
  void set(const Seen& seen);
  /// Begins another generation; only counters stay.
  void forget_gauges();
  /// Adds a count of the coordinator that was taken over. Returns false if `family` is not a
  /// worker's counter.
  bool restore(const std::string& family, const Labels& labels, double value, TimePoint now);

 private:
  /// The time series of one worker.
  struct Series {
    Labels labels;
    TimePoint used;
    std::map<std::pair<CounterFamily*, std::string>, prometheus::Counter*> counters;
    std::map<GaugeFamily*, prometheus::Gauge*> gauges;
  };

  Series& series_of(Rank rank, const std::string& host, TimePoint now);
  /// `more`: additional labels; `key` identifies them.
  static void grow(Series& series, CounterFamily& family, double by, const std::string& key = {},
                   const Labels& more = {});
  static void put(Series& series, GaugeFamily& family, double value, const Labels& more = {});
  static void forget_gauges(Series& series);
  static void forget(Series& series);
  void count_comm(Series& series, const proto::CommTotal& before, const proto::CommTotal& told);
  void set_worker(Series& series, const WorkerState& worker, const Seen& seen);

  LabelValues communicators_{16};
  LabelValues kinds_{16};
  LabelValues devices_{1'024};
  std::map<std::pair<Rank, std::string>, Series> workers_;

  const std::vector<Metric<CounterFamily, proto::Progress>> counters_;
  const std::vector<Metric<CounterFamily, proto::CollectiveTotal>> collectives_;
  GaugeFamily& up_;
  // A gauge whose value is unknown keeps its last value.
  const std::vector<Metric<GaugeFamily, WorkerState, Seen>> gauges_;
  const std::vector<Metric<GaugeFamily, proto::Progress>> gpu_;
};

}  // namespace pfc::metrics
