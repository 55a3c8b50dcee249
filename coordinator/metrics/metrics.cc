#include "coordinator/metrics/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/machine/process_memory.h"
#include "common/machine/process_work.h"
#include "common/phase_buckets.h"
#include "common/version.h"
#include "coordinator/metrics/families.h"
#include "coordinator/metrics/worker_metrics.h"

namespace pfc {
namespace {

using metrics::counter;
using metrics::CounterFamily;
using metrics::gauge;
using metrics::GaugeFamily;
using metrics::histogram;
using metrics::HistogramFamily;
using metrics::Labels;

const prometheus::Histogram::BucketBoundaries kSeconds(kPhaseBounds.begin(), kPhaseBounds.end());
// Limits the number of time series; no pfc-worker has so many phases.
constexpr std::size_t kMostPhaseSeries = 64;
// A report has only the mean time of its steps. At most this many of its steps are counted.
constexpr std::uint64_t kMostSteps = 1'000;

/// Raises a counter to a total that is counted elsewhere.
void raise(CounterFamily& family, double to) {
  prometheus::Counter& counter = family.Add({});
  counter.Increment(std::max(to - counter.Value(), 0.0));
}

}  // namespace

struct Metrics::All {
  metrics::Registry registry;
  metrics::JobMetrics job{registry};
  metrics::WorkerMetrics workers{registry};
  std::map<std::string, prometheus::Histogram*> phases;  ///< by the phase's name
  prometheus::Histogram* other_phase = nullptr;
  HistogramFamily& phase = histogram(registry, "pfc_worker_phase_duration_seconds",
                                     "Time of each phase of training, all workers");
  HistogramFamily& step = histogram(registry, "pfc_worker_step_duration_seconds",
                                    "Time of an optimizer step, all workers");
  GaugeFamily& build_info =
      gauge(registry, "pfc_build_info", "Always 1; the label is the version of pfc");
  CounterFamily& jobs =
      counter(registry, "pfc_jobs_total", "Jobs of a service that have ended or were refused");
  GaugeFamily& waiting = gauge(registry, "pfc_jobs_waiting", "Jobs in the queue of a service");
  CounterFamily& dropped =
      counter(registry, "pfc_coordinator_dropped_output_lines_total",
              "Lines for stdout and stderr that were dropped because they were not read");
  CounterFamily& takeovers =
      counter(registry, "pfc_coordinator_takeovers_total",
              "How often a coordinator has taken over the job of a killed coordinator");
  CounterFamily& journal_failures = counter(registry, "pfc_coordinator_journal_failures_total",
                                            "Failed attempts to write the journal");
  CounterFamily& cpu =
      counter(registry, "process_cpu_seconds_total", "Processor time of the coordinator");
  GaugeFamily& resident =
      gauge(registry, "process_resident_memory_bytes", "Host memory of the coordinator");

  /// Cached, because workers report thousands of phases per second.
  prometheus::Histogram& phase_of(const std::string& name) {
    if (const auto found = phases.find(name); found != phases.end()) return *found->second;
    if (phases.size() < kMostPhaseSeries)
      return *(phases[name] = &phase.Add({{"phase", name}}, kSeconds));
    if (other_phase == nullptr) other_phase = &phase.Add({{"phase", "other"}}, kSeconds);
    return *other_phase;
  }

  CounterFamily* find_counter(const std::string& name) {
    return name == jobs.GetName() ? &jobs : job.find_counter(name);
  }
  HistogramFamily* find_histogram(const std::string& name) {
    if (name == phase.GetName()) return &phase;
    return name == step.GetName() ? &step : nullptr;
  }
};

Metrics::Metrics() : all_(std::make_unique<All>()) {
  all_->build_info.Add({{"version", version()}}).Set(1);
  for (const char* how : {"completed", "stopped", "failed", "refused"}) {
    all_->jobs.Add({{"how", how}});  // begins at 0, so that the first count is an increase
  }
}

Metrics::~Metrics() = default;

void Metrics::add_progress(const WorkerState& before, const proto::Progress& progress,
                           TimePoint now) {
  const proto::Progress& old = before.progress;
  all_->workers.add(before, progress, now);
  if (before.rank == 0) all_->job.add_checkpoints(old, progress);
  for (const proto::PhaseSeconds& phase : progress.phases()) {
    std::vector<double> counts(kPhaseBuckets);
    std::copy(phase.buckets().begin(), phase.buckets().end(), counts.begin());
    all_->phase_of(phase.phase()).ObserveMultiple(counts, phase.seconds());
  }
  const double steps = metrics::increase(old.steps(), progress.steps());
  const double seconds = metrics::increase(old.step_seconds(), progress.step_seconds());
  for (double i = 0; i < std::min<double>(steps, kMostSteps); ++i) {
    all_->step.Add({}, kSeconds).Observe(seconds / steps);
  }
}

void Metrics::begin_job() { all_->job.begin_job(); }

void Metrics::count_restart(const Incident& cause) { all_->job.count_restart(cause); }

void Metrics::count_job(const std::string& how) { all_->jobs.Add({{"how", how}}).Increment(); }

void Metrics::set_waiting_jobs(std::size_t count) {
  all_->waiting.Add({}).Set(static_cast<double>(count));
}

void Metrics::set_journal(int takeovers, std::uint64_t failures) {
  raise(all_->takeovers, takeovers);
  raise(all_->journal_failures, static_cast<double>(failures));
}

void Metrics::set_dropped_lines(std::uint64_t count) {
  raise(all_->dropped, static_cast<double>(count));
}

proto::SavedMetrics Metrics::saved() const {
  proto::SavedMetrics saved;
  saved.set_last_checkpoint(all_->job.last_checkpoint());
  for (const prometheus::MetricFamily& family : all_->registry.Collect()) {
    const bool counts = family.type == prometheus::MetricType::Counter;
    if (!counts && family.type != prometheus::MetricType::Histogram) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      proto::SavedMetrics::Metric& one = *saved.add_metrics();
      one.set_family(family.name);
      for (const auto& label : metric.label) (*one.mutable_labels())[label.name] = label.value;
      one.set_value(counts ? metric.counter.value : metric.histogram.sample_sum);
      std::uint64_t below = 0;
      for (const auto& bucket : metric.histogram.bucket) {
        one.add_buckets(static_cast<double>(bucket.cumulative_count - below));
        below = bucket.cumulative_count;
      }
    }
  }
  return saved;
}

void Metrics::restore(const proto::SavedMetrics& saved, TimePoint now) {
  all_->job.restore_last_checkpoint(saved.last_checkpoint());
  for (const proto::SavedMetrics::Metric& each : saved.metrics()) {
    const Labels labels(each.labels().begin(), each.labels().end());
    if (all_->workers.restore(each.family(), labels, each.value(), now)) continue;
    if (CounterFamily* const counter = all_->find_counter(each.family())) {
      counter->Add(labels).Increment(each.value());
    }
    HistogramFamily* const histogram = all_->find_histogram(each.family());
    if (histogram == nullptr || each.buckets_size() != static_cast<int>(kPhaseBuckets)) {
      continue;
    }
    const auto phase = labels.find("phase");
    prometheus::Histogram& target =
        phase == labels.end() ? histogram->Add(labels, kSeconds) : all_->phase_of(phase->second);
    target.ObserveMultiple({each.buckets().begin(), each.buckets().end()}, each.value());
  }
}

void Metrics::begin_generation() { all_->workers.forget_gauges(); }

std::string Metrics::text(const metrics::Seen& seen) {
  all_->job.set(seen);
  all_->workers.set(seen);
  raise(all_->cpu, process_work().cpu_seconds);
  all_->resident.Add({}).Set(static_cast<double>(process_memory().resident_bytes));
  return prometheus::TextSerializer().Serialize(all_->registry.Collect());
}

}  // namespace pfc
