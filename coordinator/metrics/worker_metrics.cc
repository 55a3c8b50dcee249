#include "coordinator/metrics/worker_metrics.h"

#include <algorithm>
#include <optional>

namespace pfc::metrics {
namespace {

/// Returns the worker's last total for this communicator; zeros if there is none.
const proto::CommTotal& total_of(const proto::Progress& progress, const std::string& purpose) {
  const auto found =
      std::ranges::find(progress.comm(), purpose, [](const auto& each) { return each.purpose(); });
  return found == progress.comm().end() ? proto::CommTotal::default_instance() : *found;
}

const proto::CollectiveTotal& total_of(const proto::CommTotal& comm, const std::string& kind) {
  const auto found =
      std::ranges::find(comm.kinds(), kind, [](const auto& each) { return each.kind(); });
  return found == comm.kinds().end() ? proto::CollectiveTotal::default_instance() : *found;
}

using Value = std::optional<double>;
using Gpu = proto::GpuReading;

/// Reads a value that is known after the first report.
template <auto Member>
Value of_training(const WorkerState& worker, const Seen& /*seen*/) {
  return worker.training ? field<Member>(worker.progress) : std::nullopt;
}

template <auto Has, auto Member>
Value of_gpu(const proto::Progress& progress) {
  return (progress.gpu().*Has)() ? field<Member>(progress.gpu()) : std::nullopt;
}

}  // namespace

WorkerMetrics::WorkerMetrics(Registry& r)
    : counters_{{counter(r, "pfc_worker_samples_total", "Images that the worker has trained on"),
                 field<&proto::Progress::samples>},
                {counter(r, "pfc_worker_steps_total", "Optimizer steps that the worker has done"),
                 field<&proto::Progress::steps>},
                {counter(r, "pfc_worker_training_seconds_total", "Time of optimizer steps"),
                 field<&proto::Progress::step_seconds>},
                {counter(
                     r, "pfc_worker_busy_seconds_total",
                     "Time of steps in which the worker computed or waited for its own data, and "
                     "not for other workers"),
                 field<&proto::Progress::own_seconds>},
                {counter(r, "pfc_worker_data_wait_seconds_total",
                         "Time of steps in which training waited for data"),
                 field<&proto::Progress::data_wait_seconds>},
                {counter(r, "pfc_worker_input_wait_seconds_total",
                         "Time of steps in which the worker waited for its own data"),
                 field<&proto::Progress::own_data_wait_seconds>},
                {counter(r, "pfc_worker_loader_busy_seconds_total",
                         "Time of the threads that read and decode images, all together"),
                 field<&proto::Progress::loader_seconds>},
                {counter(r, "pfc_worker_skipped_images_total", "Damaged images that were replaced"),
                 field<&proto::Progress::skipped_images>},
                {counter(r, "pfc_worker_cpu_seconds_total",
                         "Processor time of the worker's process"),
                 field<&proto::Progress::cpu_seconds>}},
      collectives_{
          {counter(r, "pfc_worker_collectives_total", "Collectives that the worker has begun"),
           field<&proto::CollectiveTotal::calls>},
          {counter(r, "pfc_worker_collective_seconds_total",
                   "Time of the worker's collectives, including waits for other workers; 0 for "
                   "NCCL, because the host only enqueues them and does not wait"),
           field<&proto::CollectiveTotal::seconds>},
          {counter(r, "pfc_worker_collective_sent_bytes_total",
                   "Bytes that the worker has sent to others in collectives"),
           field<&proto::CollectiveTotal::sent_bytes>}},
      up_(gauge(r, "pfc_worker_up", "1: the worker runs and has joined")),
      gauges_{{gauge(r, "pfc_worker_step", "Optimizer steps that the worker's state contains"),
               [](const WorkerState& w, const Seen&) -> Value { return w.progress.step(); }},
              {gauge(r, "pfc_worker_last_heartbeat_timestamp_seconds",
                     "Time of the last heartbeat of the worker"),
               [](const WorkerState& w, const Seen& s) {
                 return w.joined ? Value(s.unix_time(w.last_heard)) : std::nullopt;
               }},
              {gauge(r, "pfc_worker_last_progress_timestamp_seconds",
                     "Time of the last change of the worker's step, phase or collective"),
               [](const WorkerState& w, const Seen& s) {
                 return w.training ? Value(s.unix_time(w.last_moved)) : std::nullopt;
               }},
              {gauge(r, "pfc_worker_own_step_seconds",
                     "Time of a step in which the worker computed or waited for its own data, "
                     "median of the last 20 reports"),
               [](const WorkerState& w, const Seen& s) {
                 return w.training ? Value(s.stragglers.own_seconds(w.rank)) : std::nullopt;
               }},
              {gauge(r, "pfc_worker_slow",
                     "1: its own work takes much longer than that of the other workers"),
               [](const WorkerState& w, const Seen& s) {
                 return w.training ? Value(s.stragglers.slowness(w.rank) > 0) : std::nullopt;
               }},
              {gauge(r, "pfc_worker_resident_memory_bytes", "Host memory of the process"),
               of_training<&proto::Progress::resident_bytes>},
              {gauge(r, "pfc_worker_loader_threads", "Threads that read and decode images"),
               of_training<&proto::Progress::loader_threads>}},
      gpu_{{gauge(r, "pfc_worker_gpu_memory_used_bytes",
                  "Memory in use on the worker's GPU, by any process"),
            [](const proto::Progress& progress) {
              const proto::GpuReading& gpu = progress.gpu();
              const auto used =
                  gpu.has_memory_used() ? gpu.memory_used() : progress.gpu_memory_bytes();
              return used > 0 ? Value(used) : std::nullopt;
            }},
           {gauge(r, "pfc_worker_gpu_memory_total_bytes", "Memory of the worker's GPU"),
            of_gpu<&Gpu::has_memory_total, &Gpu::memory_total>},
           {gauge(r, "pfc_worker_gpu_utilization_ratio",
                  "Fraction of the last sample period in which a kernel ran on the GPU"),
            of_gpu<&Gpu::has_utilisation, &Gpu::utilisation>},
           {gauge(r, "pfc_worker_gpu_temperature_celsius", "Temperature of the worker's GPU"),
            of_gpu<&Gpu::has_temperature_celsius, &Gpu::temperature_celsius>},
           {gauge(r, "pfc_worker_gpu_power_watts", "Power draw of the worker's GPU"),
            of_gpu<&Gpu::has_power_watts, &Gpu::power_watts>},
           {gauge(r, "pfc_worker_gpu_throttled",
                  "1: heat, power or hardware keep the GPU's clock low"),
            of_gpu<&Gpu::has_throttled, &Gpu::throttled>}} {}

WorkerMetrics::Series& WorkerMetrics::series_of(Rank rank, const std::string& host, TimePoint now) {
  Series& series = workers_[{rank, host}];
  if (series.labels.empty()) series.labels = {{"rank", std::to_string(rank)}, {"host", host}};
  series.used = now;
  return series;
}

// Caches the counter, because a worker reports many times a second.
void WorkerMetrics::grow(Series& series, CounterFamily& family, double by, const std::string& key,
                         const Labels& more) {
  prometheus::Counter*& counter = series.counters[{&family, key}];
  if (counter == nullptr) {
    Labels labels = series.labels;
    labels.insert(more.begin(), more.end());
    counter = &family.Add(labels);
  }
  counter->Increment(by);
}

void WorkerMetrics::put(Series& series, GaugeFamily& family, double value, const Labels& more) {
  prometheus::Gauge*& gauge = series.gauges[&family];
  if (gauge == nullptr) {
    Labels labels = series.labels;
    labels.insert(more.begin(), more.end());
    gauge = &family.Add(labels);
  }
  gauge->Set(value);
}

void WorkerMetrics::forget_gauges(Series& series) {
  for (auto& [family, gauge] : series.gauges) family->Remove(gauge);
  series.gauges.clear();
}

void WorkerMetrics::forget(Series& series) {
  forget_gauges(series);
  for (auto& [key, counter] : series.counters) key.first->Remove(counter);
}

void WorkerMetrics::forget_gauges() {
  for (auto& [worker, series] : workers_) forget_gauges(series);
}

void WorkerMetrics::add(const WorkerState& before, const proto::Progress& told, TimePoint now) {
  Series& s = series_of(before.rank, before.host, now);
  const proto::Progress& old = before.progress;
  for (const auto& [family, value] : counters_)
    grow(s, family, increase(*value(old), *value(told)));
  for (const proto::CommTotal& comm : told.comm()) {
    count_comm(s, total_of(old, comm.purpose()), comm);
  }
}

void WorkerMetrics::count_comm(Series& s, const proto::CommTotal& before,
                               const proto::CommTotal& told) {
  for (const proto::CollectiveTotal& kind : told.kinds()) {
    const proto::CollectiveTotal& old = total_of(before, kind.kind());
    if (kind.calls() == old.calls() && kind.seconds() == old.seconds()) continue;
    const Labels labels{{"communicator", communicators_(told.purpose())},
                        {"kind", kinds_(kind.kind())}};
    const std::string key = labels.at("communicator") + "/" + labels.at("kind");
    for (const auto& [family, value] : collectives_) {
      grow(s, family, increase(*value(old), *value(kind)), key, labels);
    }
  }
}

void WorkerMetrics::set(const Seen& seen) {
  for (auto& [worker, series] : workers_) {
    if (series.gauges.contains(&up_)) put(series, up_, 0);  // unless set below
  }
  for (const WorkerState& worker : seen.state.job.current.workers) {
    set_worker(series_of(worker.rank, worker.host, seen.now), worker, seen);
  }
  for (auto each = workers_.begin(); each != workers_.end();) {
    if (seen.now - each->second.used < kKept) {
      ++each;
    } else {
      forget(each->second);
      each = workers_.erase(each);
    }
  }
}

void WorkerMetrics::set_worker(Series& s, const WorkerState& worker, const Seen& seen) {
  put(s, up_, worker.joined && !worker.exit && !worker.report ? 1 : 0);
  for (const auto& [family, value] : gauges_) {
    if (const Value now = value(worker, seen)) put(s, family, *now);
  }
  if (!worker.training) return;  // no report yet
  const Labels device{{"device", devices_(worker.progress.device())}};
  for (const auto& [family, value] : gpu_) {
    if (const Value now = value(worker.progress)) put(s, family, *now, device);
  }
}

bool WorkerMetrics::restore(const std::string& name, const Labels& labels, double value,
                            TimePoint now) {
  CounterFamily* family = find_family(counters_, name);
  if (family == nullptr) family = find_family(collectives_, name);
  const auto rank = labels.find("rank"), host = labels.find("host");
  if (family == nullptr || rank == labels.end() || host == labels.end()) return false;
  Series& series = series_of(std::stoi(rank->second), host->second, now);
  const auto communicator = labels.find("communicator"), kind = labels.find("kind");
  std::string key;
  if (communicator != labels.end() && kind != labels.end()) {
    key = communicators_(communicator->second) + "/" + kinds_(kind->second);
  }
  grow(series, *family, value, key, labels);
  return true;
}

}  // namespace pfc::metrics
