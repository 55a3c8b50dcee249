#include "coordinator/report/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/version.h"

namespace pfc {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Labels;
using prometheus::Registry;

using CounterFamily = prometheus::Family<prometheus::Counter>;
using GaugeFamily = prometheus::Family<prometheus::Gauge>;
using HistogramFamily = prometheus::Family<prometheus::Histogram>;

GaugeFamily& gauge(Registry& registry, const char* name, const char* help) {
  return BuildGauge().Name(name).Help(help).Register(registry);
}

CounterFamily& counter(Registry& registry, const char* name, const char* help) {
  return BuildCounter().Name(name).Help(help).Register(registry);
}

Labels labels_of(const WorkerState& worker) {
  return {{"rank", std::to_string(worker.rank)}, {"host", worker.host}};
}

/// How much a counter grows when a worker reports a new total. A worker that was started again
/// begins again at 0.
double increase(double before, double after) { return after >= before ? after - before : after; }

/// What the worker had told of this communicator before; zeros when nothing.
proto::CommTotal total_of(const proto::Progress& progress, const std::string& purpose) {
  for (const proto::CommTotal& total : progress.comm()) {
    if (total.purpose() == purpose) return total;
  }
  return {};
}

/// The values of one label. Each makes a time series in every dashboard, so that beyond `most` of
/// them, which no pfc-worker has, a new value is "other".
class LabelValues {
 public:
  explicit LabelValues(std::size_t most) : most_(most) {}
  const std::string& operator()(const std::string& value) {
    if (known_.size() < most_) return *known_.insert(value).first;
    const auto found = known_.find(value);
    return found == known_.end() ? other_ : *found;
  }

 private:
  const std::size_t most_;
  const std::string other_ = "other";
  std::set<std::string> known_;
};

// One phase of a step: from a millisecond on a GPU to a minute for an evaluation on a CPU.
const prometheus::Histogram::BucketBoundaries kPhaseSeconds{
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60};

}  // namespace

struct Metrics::Families {
  Registry registry;
  LabelValues phases{64};
  LabelValues purposes{16};
  LabelValues devices{1'024};
  GaugeFamily& build_info = gauge(registry, "pfc_build_info", "Version of the coordinator");
  GaugeFamily& generation = gauge(registry, "pfc_job_generation", "Current generation");
  GaugeFamily& restarts = gauge(registry, "pfc_job_restarts",
                                "Generations that have ended by a failure since the job began");
  GaugeFamily& restarts_left =
      gauge(registry, "pfc_job_restarts_left", "Failures after which the job still goes on");
  GaugeFamily& workers = gauge(registry, "pfc_job_workers", "Workers of the current generation");
  GaugeFamily& wanted = gauge(registry, "pfc_job_workers_wanted",
                              "Workers that the job has with all of its hosts and slots");
  GaugeFamily& idle = gauge(registry, "pfc_job_slots_idle", "Slots without a worker, as spares");
  GaugeFamily& left_out = gauge(registry, "pfc_job_slots_left_out",
                                "Slots and hosts that are left out, as they failed too often");
  GaugeFamily& step = gauge(registry, "pfc_job_step", "Optimizer steps done");
  GaugeFamily& total = gauge(registry, "pfc_job_total_steps", "Optimizer steps of the whole job");
  GaugeFamily& epoch = gauge(registry, "pfc_job_epoch", "Epoch, from 0");
  GaugeFamily& loss = gauge(registry, "pfc_job_loss", "Loss of the last step, mean of all workers");
  GaugeFamily& speed =
      gauge(registry, "pfc_job_samples_per_second", "Images a second, all workers together");
  GaugeFamily& up = gauge(registry, "pfc_worker_up", "1: the worker runs and has joined");
  GaugeFamily& worker_step = gauge(registry, "pfc_worker_step", "Optimizer steps of the worker");
  GaugeFamily& worker_speed =
      gauge(registry, "pfc_worker_samples_per_second", "Images a second of the worker");
  GaugeFamily& own_seconds =
      gauge(registry, "pfc_worker_own_step_seconds",
            "Time of a step in which the worker computed or waited for its own data, median of the "
            "last 20 reports");
  GaugeFamily& slow = gauge(registry, "pfc_worker_slow",
                            "1: its own work takes much longer than that of the other workers");
  GaugeFamily& resident =
      gauge(registry, "pfc_worker_resident_memory_bytes", "Host memory of the worker's process");
  GaugeFamily& gpu_memory = gauge(registry, "pfc_worker_gpu_memory_used_bytes",
                                  "Memory in use on the worker's GPU, by any process");
  HistogramFamily& phase = BuildHistogram()
                               .Name("pfc_worker_phase_seconds")
                               .Help("Time of each phase of training, all workers")
                               .Register(registry);
  CounterFamily& data_wait =
      counter(registry, "pfc_worker_data_wait_seconds_total", "Time that training waited for data");
  CounterFamily& comm_bytes =
      counter(registry, "pfc_worker_comm_bytes_total", "Bytes sent to other workers, by purpose");
  CounterFamily& comm_calls =
      counter(registry, "pfc_worker_comm_calls_total", "Collectives called, by purpose");
  GaugeFamily& dropped =
      gauge(registry, "pfc_coordinator_dropped_output_lines",
            "Lines for stdout and stderr that were dropped since the start, as nobody read them");
  CounterFamily& skipped =
      counter(registry, "pfc_worker_skipped_images_total", "Damaged images that were skipped");
  CounterFamily& jobs =
      counter(registry, "pfc_jobs_total", "Jobs of a service that have ended or were refused");
  GaugeFamily& waiting = gauge(registry, "pfc_jobs_waiting", "Jobs in the queue of a service");
  GaugeFamily& takeovers =
      gauge(registry, "pfc_coordinator_takeovers",
            "How often a coordinator was started again in the place of one that was killed");
  GaugeFamily& journal_failures = gauge(registry, "pfc_coordinator_journal_failures",
                                        "Attempts to write the journal that have failed");
  std::set<std::pair<GaugeFamily*, prometheus::Gauge*>> of_workers;

  void set(GaugeFamily& family, const Labels& labels, double value) {
    prometheus::Gauge& gauge = family.Add(labels);
    gauge.Set(value);
    of_workers.emplace(&family, &gauge);
  }
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {
  families_->build_info.Add({{"version", version()}}).Set(1);
}

Metrics::~Metrics() = default;

void Metrics::add_progress(const WorkerState& before, const proto::Progress& progress) {
  Families& f = *families_;
  const Labels labels = labels_of(before);
  const proto::Progress& old = before.progress;
  const auto add = [](CounterFamily& family, const Labels& with, auto from, auto to) {
    family.Add(with).Increment(increase(static_cast<double>(from), static_cast<double>(to)));
  };
  add(f.data_wait, labels, old.data_wait_seconds(), progress.data_wait_seconds());
  add(f.skipped, labels, old.skipped_images(), progress.skipped_images());
  for (const proto::CommTotal& total : progress.comm()) {
    Labels with_purpose = labels;
    with_purpose["purpose"] = f.purposes(total.purpose());
    const proto::CommTotal earlier = total_of(old, total.purpose());
    add(f.comm_bytes, with_purpose, earlier.sent_bytes(), total.sent_bytes());
    add(f.comm_calls, with_purpose, earlier.calls(), total.calls());
  }
  for (const proto::PhaseSeconds& sample : progress.phases()) {
    f.phase.Add({{"phase", f.phases(sample.phase())}}, kPhaseSeconds).Observe(sample.seconds());
  }
}

void Metrics::count_job(const std::string& how) { families_->jobs.Add({{"how", how}}).Increment(); }

void Metrics::set_waiting_jobs(std::size_t count) {
  families_->waiting.Add({}).Set(static_cast<double>(count));
}

void Metrics::set_journal(int takeovers, std::uint64_t failures) {
  families_->takeovers.Add({}).Set(takeovers);
  families_->journal_failures.Add({}).Set(static_cast<double>(failures));
}

proto::SavedMetrics Metrics::saved() const {
  proto::SavedMetrics saved;
  for (const prometheus::MetricFamily& family : families_->registry.Collect()) {
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

void Metrics::restore(const proto::SavedMetrics& saved) {
  Families& f = *families_;
  const std::map<std::string, CounterFamily*> counters{{f.data_wait.GetName(), &f.data_wait},
                                                       {f.comm_bytes.GetName(), &f.comm_bytes},
                                                       {f.comm_calls.GetName(), &f.comm_calls},
                                                       {f.skipped.GetName(), &f.skipped},
                                                       {f.jobs.GetName(), &f.jobs}};
  for (const proto::SavedMetrics::Metric& each : saved.metrics()) {
    const Labels labels(each.labels().begin(), each.labels().end());
    if (const auto purpose = labels.find("purpose"); purpose != labels.end()) {
      f.purposes(purpose->second);
    }
    if (const auto counter = counters.find(each.family()); counter != counters.end()) {
      counter->second->Add(labels).Increment(each.value());
    } else if (each.family() == f.phase.GetName() &&
               each.buckets_size() == static_cast<int>(kPhaseSeconds.size()) + 1) {
      if (const auto phase = labels.find("phase"); phase != labels.end()) f.phases(phase->second);
      f.phase.Add(labels, kPhaseSeconds)
          .ObserveMultiple({each.buckets().begin(), each.buckets().end()}, each.value());
    }
  }
}

void Metrics::forget_workers() {
  Families& f = *families_;
  for (auto& [family, value] : f.of_workers) family->Remove(value);
  f.of_workers.clear();
}

std::string Metrics::text(const ClusterState& state, const RendezvousConfig& config,
                          const JobProgress& progress, const Stragglers& stragglers,
                          std::uint64_t dropped_lines, TimePoint now) {
  Families& f = *families_;
  f.dropped.Add({}).Set(static_cast<double>(dropped_lines));
  f.generation.Add({}).Set(static_cast<double>(state.job.current.number));
  f.restarts.Add({}).Set(static_cast<double>(state.job.restarts.size()));
  f.restarts_left.Add({}).Set(restarts_left(state, config));
  f.workers.Add({}).Set(static_cast<double>(state.job.current.workers.size()));
  f.wanted.Add({}).Set(wanted_workers(state, config.elastic));
  f.idle.Add({}).Set(static_cast<double>(idle_slots(state, now).size()));
  f.left_out.Add({}).Set(static_cast<double>(std::ranges::count_if(
      state.job.blame.records, [&](const auto& record) { return is_left_out(record, now); })));
  f.step.Add({}).Set(static_cast<double>(progress.step()));
  f.total.Add({}).Set(static_cast<double>(progress.total_steps()));
  f.epoch.Add({}).Set(static_cast<double>(progress.epoch()));
  f.loss.Add({}).Set(progress.loss());
  f.speed.Add({}).Set(progress.samples_per_second());
  for (const WorkerState& worker : state.job.current.workers) {
    const Labels labels = labels_of(worker);
    const bool runs = worker.joined && !worker.exit;
    f.set(f.up, labels, runs ? 1 : 0);
    f.set(f.worker_step, labels, static_cast<double>(worker.progress.step()));
    f.set(f.worker_speed, labels, runs ? worker.progress.samples_per_second() : 0);
    if (!worker.training) continue;  // it has not reported yet
    f.set(f.own_seconds, labels, stragglers.own_seconds(worker.rank));
    f.set(f.slow, labels, stragglers.slowness(worker.rank) > 0 ? 1 : 0);
    f.set(f.resident, labels, static_cast<double>(worker.progress.resident_bytes()));
    if (worker.progress.gpu_memory_bytes() == 0) continue;  // it computes on a CPU
    Labels with_device = labels;
    with_device["device"] = f.devices(worker.progress.device());
    f.set(f.gpu_memory, with_device, static_cast<double>(worker.progress.gpu_memory_bytes()));
  }
  return prometheus::TextSerializer().Serialize(f.registry.Collect());
}

}  // namespace pfc
