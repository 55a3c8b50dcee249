#include "coordinator/metrics/worker_metrics.h"

#include <algorithm>

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

}  // namespace

WorkerMetrics::WorkerMetrics(Registry& r)
    : samples_(counter(r, "pfc_worker_samples_total", "Images that the worker has trained on")),
      steps_(counter(r, "pfc_worker_steps_total", "Optimizer steps that the worker has done")),
      training_(counter(r, "pfc_worker_training_seconds_total", "Time of these steps")),
      busy_(counter(r, "pfc_worker_busy_seconds_total",
                    "Time of them in which the worker computed or waited for its own data, and "
                    "not for other workers")),
      data_wait_(counter(r, "pfc_worker_data_wait_seconds_total",
                         "Time of them in which training waited for data")),
      input_wait_(counter(r, "pfc_worker_input_wait_seconds_total",
                          "Time of them in which the worker's own data were not there")),
      loader_busy_(counter(r, "pfc_worker_loader_busy_seconds_total",
                           "Time of the threads that read and decode images, all together")),
      skipped_(counter(r, "pfc_worker_skipped_images_total", "Damaged images that were replaced")),
      cpu_(counter(r, "pfc_worker_cpu_seconds_total",
                   "Processor time of the worker since its training began")),
      collectives_(
          counter(r, "pfc_worker_collectives_total", "Collectives that the worker has begun")),
      collective_seconds_(
          counter(r, "pfc_worker_collective_seconds_total",
                  "Time of the worker's collectives, with the time that it waited in them for "
                  "others; on a GPU those of the host's communicators alone")),
      collective_bytes_(counter(r, "pfc_worker_collective_sent_bytes_total",
                                "Bytes that the worker has sent to others in collectives")),
      up_(gauge(r, "pfc_worker_up", "1: the worker runs and has joined")),
      step_(gauge(r, "pfc_worker_step", "Optimizer steps of the state that the worker has")),
      heard_(gauge(r, "pfc_worker_last_heartbeat_timestamp_seconds",
                   "When the coordinator has heard of the worker last")),
      moved_(gauge(r, "pfc_worker_last_progress_timestamp_seconds",
                   "When the worker's step, phase or collective has changed last")),
      own_seconds_(gauge(r, "pfc_worker_own_step_seconds",
                         "Time of a step in which the worker computed or waited for its own data, "
                         "median of the last 20 reports")),
      slow_(gauge(r, "pfc_worker_slow",
                  "1: its own work takes much longer than that of the other workers")),
      resident_(gauge(r, "pfc_worker_resident_memory_bytes", "Host memory of the process")),
      loader_threads_(gauge(r, "pfc_worker_loader_threads", "That read and decode images")),
      gpu_used_(gauge(r, "pfc_worker_gpu_memory_used_bytes",
                      "Memory in use on the worker's GPU, by any process")),
      gpu_total_(gauge(r, "pfc_worker_gpu_memory_total_bytes", "Memory of the worker's GPU")),
      gpu_utilisation_(gauge(r, "pfc_worker_gpu_utilization_ratio",
                             "Part of the last moment in which a kernel ran on the GPU")),
      gpu_temperature_(
          gauge(r, "pfc_worker_gpu_temperature_celsius", "Temperature of the worker's GPU")),
      gpu_power_(gauge(r, "pfc_worker_gpu_power_watts", "Power that the worker's GPU takes")),
      gpu_throttled_(gauge(r, "pfc_worker_gpu_throttled",
                           "1: heat, power or hardware keep the GPU's clock low")),
      by_name_([this] {
        std::map<std::string, CounterFamily*> all;
        for (CounterFamily* family :
             {&samples_, &steps_, &training_, &busy_, &data_wait_, &input_wait_, &loader_busy_,
              &skipped_, &cpu_, &collectives_, &collective_seconds_, &collective_bytes_}) {
          all[family->GetName()] = family;
        }
        return all;
      }()) {}

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
  grow(s, samples_, increase(old.samples(), told.samples()));
  grow(s, steps_, increase(old.steps(), told.steps()));
  grow(s, training_, increase(old.step_seconds(), told.step_seconds()));
  grow(s, busy_, increase(old.own_seconds(), told.own_seconds()));
  grow(s, data_wait_, increase(old.data_wait_seconds(), told.data_wait_seconds()));
  grow(s, input_wait_, increase(old.own_data_wait_seconds(), told.own_data_wait_seconds()));
  grow(s, loader_busy_, increase(old.loader_seconds(), told.loader_seconds()));
  grow(s, skipped_, increase(old.skipped_images(), told.skipped_images()));
  grow(s, cpu_, increase(old.cpu_seconds(), told.cpu_seconds()));
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
    grow(s, collectives_, increase(old.calls(), kind.calls()), key, labels);
    grow(s, collective_seconds_, increase(old.seconds(), kind.seconds()), key, labels);
    grow(s, collective_bytes_, increase(old.sent_bytes(), kind.sent_bytes()), key, labels);
  }
}

void WorkerMetrics::set(const GenerationState& generation, const Stragglers& stragglers,
                        TimePoint now) {
  for (auto& [worker, series] : workers_) {
    if (series.gauges.contains(&up_)) put(series, up_, 0);  // unless set below
  }
  for (const WorkerState& worker : generation.workers) {
    set_worker(series_of(worker.rank, worker.host, now), worker, stragglers, now);
  }
  for (auto each = workers_.begin(); each != workers_.end();) {
    if (now - each->second.used < kKept) {
      ++each;
    } else {
      forget(each->second);
      each = workers_.erase(each);
    }
  }
}

void WorkerMetrics::set_worker(Series& s, const WorkerState& worker, const Stragglers& stragglers,
                               TimePoint now) {
  const proto::Progress& progress = worker.progress;
  const WallTime wall = std::chrono::system_clock::now();
  put(s, up_, worker.joined && !worker.exit && !worker.report ? 1 : 0);
  put(s, step_, static_cast<double>(progress.step()));
  if (worker.joined) put(s, heard_, unix_seconds(worker.last_heard, now, wall));
  if (!worker.training) return;  // no report yet
  put(s, moved_, unix_seconds(worker.last_moved, now, wall));
  put(s, own_seconds_, stragglers.own_seconds(worker.rank));
  put(s, slow_, stragglers.slowness(worker.rank) > 0 ? 1 : 0);
  put(s, resident_, static_cast<double>(progress.resident_bytes()));
  put(s, loader_threads_, progress.loader_threads());
  set_gpu(s, progress);
}

void WorkerMetrics::set_gpu(Series& s, const proto::Progress& progress) {
  const Labels device{{"device", devices_(progress.device())}};
  const proto::GpuReading& gpu = progress.gpu();
  const std::uint64_t used =
      gpu.has_memory_used() ? gpu.memory_used() : progress.gpu_memory_bytes();
  if (used > 0) put(s, gpu_used_, static_cast<double>(used), device);
  if (gpu.has_memory_total()) {
    put(s, gpu_total_, static_cast<double>(gpu.memory_total()), device);
  }
  if (gpu.has_utilisation()) put(s, gpu_utilisation_, gpu.utilisation(), device);
  if (gpu.has_temperature_celsius()) put(s, gpu_temperature_, gpu.temperature_celsius(), device);
  if (gpu.has_power_watts()) put(s, gpu_power_, gpu.power_watts(), device);
  if (gpu.has_throttled()) put(s, gpu_throttled_, gpu.throttled() ? 1 : 0, device);
}

bool WorkerMetrics::restore(const std::string& name, const Labels& labels, double value,
                            TimePoint now) {
  const auto family = by_name_.find(name);
  const auto rank = labels.find("rank"), host = labels.find("host");
  if (family == by_name_.end() || rank == labels.end() || host == labels.end()) return false;
  Series& series = series_of(std::stoi(rank->second), host->second, now);
  const auto communicator = labels.find("communicator"), kind = labels.find("kind");
  std::string key;
  if (communicator != labels.end() && kind != labels.end()) {
    key = communicators_(communicator->second) + "/" + kinds_(kind->second);
  }
  grow(series, *family->second, value, key, labels);
  return true;
}

}  // namespace pfc::metrics
