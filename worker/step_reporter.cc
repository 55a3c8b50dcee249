#include "worker/step_reporter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "common/counted.h"
#include "common/machine/gpu/gpu_telemetry.h"
#include "common/machine/gpu/gpus.h"
#include "common/machine/process_memory.h"
#include "common/machine/process_work.h"
#include "worker/memory/memory_advice.h"
#include "worker/start/job_check.h"

namespace pfc {
namespace {

std::vector<Progress::CommTotal> totals_of(const Communicated& all) {
  std::vector<Progress::CommTotal> totals;
  for (const auto& [purpose, counters] : all) {
    totals.push_back({.purpose = purpose,
                      .calls = counters.calls,
                      .done = counters.done,
                      .newest = counters.newest,
                      .sent_bytes = counters.sent_bytes,
                      .kinds = counters.kinds});
  }
  return totals;
}

/// Returns a function that reads the CPU time that earlier sessions of this process have not
/// reported. A worker that survives a restart begins another session.
std::function<double()> cpu_seconds_of_session() {
  static std::atomic<double> reported = 0;
  return [before = reported.load()] {
    reported = process_work().cpu_seconds;
    return reported - before;
  };
}

/// Returns a function that reads the CPU time and the GPU's telemetry. It opens the GPU at the
/// first call, because that may take a moment.
std::function<ProcessVitals()> vitals_of(bool on_host, int gpu_index) {
  const std::function<double()> cpu_seconds = cpu_seconds_of_session();
  if (on_host) return [cpu_seconds] { return ProcessVitals{.cpu_seconds = cpu_seconds()}; };
  return [cpu_seconds, gpu_index, gpu = std::shared_ptr<GpuTelemetry>()]() mutable {
    if (!gpu) {
      const auto gpus = usable_gpus().gpus;
      const auto own = std::ranges::find(gpus, gpu_index, &Gpu::index);
      gpu = std::make_shared<GpuTelemetry>(own == gpus.end() ? "" : own->pci_bus_id);
    }
    ProcessVitals vitals{.cpu_seconds = cpu_seconds()};
    if (gpu->problem().empty()) vitals.gpu = gpu->read();
    return vitals;
  };
}

}  // namespace

StepReporter::StepReporter(TrainingSession& session, CoordinatorClient* coordinator)
    : s_(session),
      start_(Clock::now()),
      so_far_(progress_of_session()),
      remaining_(session.plan, {.verbose = session.job.verbose,
                                .save_every_steps = session.job.save_every_steps}),
      input_watch_({.loader_threads = static_cast<int>(session.job.num_workers),
                    .cores = session.local.planned().threads}),
      window_start_(start_) {
  if (coordinator != nullptr) {
    Progress first = so_far_;
    first.starting = true;
    first.step = s_.plan.start.step;
    first.images_seen = s_.plan.start.images;
    first.resident_bytes = process_memory().resident_bytes;
    progress_.emplace(*coordinator, s_.phase,
                      ProgressReporter::Options{
                          .comms = [this] { return totals_of(s_.comms.counters()); },
                          .vitals = vitals_of(s_.local.ops->on_host(), s_.membership.local_rank),
                          .start = first,
                          .tick = report_pause(s_.membership.world_size)});
  }
  if (s_.membership.rank != 0) return;
  log_.emplace(TrainingLogOptions{.output = s_.job.output,
                                  .start = s_.plan.start,
                                  .global_batch = s_.plan.batch.images(),
                                  .generation = s_.membership.generation});
  if (!s_.job.tensorboard) return;
  board_.emplace(TensorBoardOptions{.folder = s_.job.output / kTensorBoardFolder,
                                    .first_step = s_.plan.first_step()});
}

void StepReporter::start() {
  if (!log_) return;
  const JobConfig& job = s_.job;
  log_->message(job.network + ", " + std::to_string(job.num_classes) + " classes, " +
                std::to_string(job.num_image) + " images; " +
                counted(s_.membership.world_size, "worker") + " x batch " +
                std::to_string(job.batch_size) + "; " + s_.local.ops->description() + "; " +
                s_.comms.step->description());
  log_->message(memory_message(s_.local.memory));
  log_->message(s_.start_message + "; " + counted(s_.plan.last_step, "step") +
                (s_.plan.resized() ? std::string()
                                   : ", " + std::to_string(s_.plan.warmup_steps) + " of warm-up"));
  log_->start({.steps_done = s_.plan.start.step,
               .last_step = s_.plan.last_step,
               .network = job.network,
               .device = device(),
               .precision = s_.job_json.at("precision"),
               .classes = job.num_classes,
               .images = job.num_image,
               .workers = s_.membership.world_size,
               .batch_size = job.batch_size});
}

void StepReporter::step(const StepStats& stats, double seconds) {
  const std::vector<PhaseTimer::Sample> phases = s_.phase.take();
  const StepRecord record = s_.phase("report", [&] { return step_record(stats, seconds, phases); });
  add(stats, seconds, phases);
  add(phases);
  s_.phase("log", [&] {
    to_log([&](TrainingLog& log) { log.step(record); });
    to_board([&](TensorBoardLog& board) { board.step(record); });
    window_loss_ += stats.loss;
    window_distillation_loss_ += stats.distillation_loss.value_or(0);
    window_logits_loss_ += stats.logits_loss.value_or(0);
    window_samples_ += stats.samples;
    ++window_steps_;
    if (stats.step % s_.job.frequent == 0 || stats.step == s_.plan.last_step) log_window(record);
  });
  if (s_.trainer->sampler.wants(stats.step)) sample(stats.step);
  if (progress_) progress_->update(progress(record));
  take_phases_between_steps();
  check_output();
}

void StepReporter::evaluation(std::int64_t step, const VerificationResult& result) {
  to_log([&](TrainingLog& log) { log.evaluation(step, result); });
  to_board([&](TensorBoardLog& board) { board.evaluation(step, result); });
  take_phases_between_steps();
}

void StepReporter::evaluation(std::int64_t step, const RetrievalResult& result) {
  to_log([&](TrainingLog& log) { log.evaluation(step, result); });
  to_board([&](TensorBoardLog& board) { board.evaluation(step, result); });
  take_phases_between_steps();
}

void StepReporter::evaluation(std::int64_t step, const ClassificationResult& result) {
  to_log([&](TrainingLog& log) { log.evaluation(step, result); });
  to_board([&](TensorBoardLog& board) { board.evaluation(step, result); });
  take_phases_between_steps();
}

void StepReporter::checkpoint(const std::vector<CheckpointEvent>& events) {
  for (const CheckpointEvent& event : events) {
    to_log([&](TrainingLog& log) { log.checkpoint(event); });
    if (!event.published) {
      so_far_.checkpoints.held_seconds += event.seconds;
      continue;
    }
    count(event);
    so_far_.checkpoint_step = event.step;
    saved(event.step);
  }
  take_phases_between_steps();
}

void StepReporter::count(const CheckpointEvent& published) {
  Progress::Checkpoints& all = so_far_.checkpoints;
  ++all.count;
  all.seconds += published.since_begin;
  all.held_seconds += published.seconds;
  all.bytes += published.bytes;
  all.newest_seconds = published.since_begin;
  all.newest_bytes = published.bytes;
}

void StepReporter::in_memory(std::int64_t step) {
  if (step <= so_far_.memory_step) return;
  so_far_.memory_step = step;
  saved(step);
}

void StepReporter::saved(std::int64_t step) {
  so_far_.saved_step = std::max(so_far_.saved_step, step);
  if (progress_) progress_->saved(so_far_);
}

void StepReporter::message(const std::string& text) {
  to_log([&](TrainingLog& log) { log.message(text); });
}

void StepReporter::end(std::int64_t step, const std::string& reason) {
  take_phases_between_steps();
  if (!phase_seconds_.empty()) message(time_message(phase_seconds_));
  const PagingCounters paging = s_.trainer->head->paging();
  if (paging.used > 0) message(paging_message(paging));
  to_log([&](TrainingLog& log) {
    log.end({.step = step,
             .reason = reason,
             .seconds = seconds_since(start_),
             .phase_seconds = phase_seconds_});
  });
}

void StepReporter::check_output() {
  if (!s_.output_lock || !failure_.empty()) return;
  try {
    s_.output_lock->expect_held();
    return;
  } catch (const StorageError& error) {
    fail(error.what());
  }
  try {
    s_.output_lock->take_again_if_removed();
  } catch (const InputError& error) {
    failure_ += std::string("; ") + error.what();
  }
}

void StepReporter::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  log_.reset();
  board_.reset();
  s_.end_early = true;
}

void StepReporter::add(const std::vector<PhaseTimer::Sample>& samples) {
  for (const PhaseTimer::Sample& s : samples) phase_seconds_[s.phase] += s.seconds;
}

void StepReporter::add(const StepStats& stats, double seconds,
                       const std::vector<PhaseTimer::Sample>& phases) {
  Progress& all = so_far_;
  ++all.steps;
  all.samples += static_cast<std::uint64_t>(stats.samples / s_.membership.world_size);
  all.step_seconds += seconds;
  all.data_wait_seconds += stats.data_wait_seconds;
  all.own_data_wait_seconds += stats.own_data_wait_seconds;
  all.loader_seconds += stats.loader_seconds;
  all.own_seconds += own_seconds(stats, seconds, phases);
  all.skipped_images = skipped_images(stats);
  const double images = static_cast<double>(stats.samples) / s_.membership.world_size;
  if (const auto line =
          input_watch_.step(seconds, stats.own_data_wait_seconds, stats.loader_seconds, images)) {
    spdlog::warn("{}", *line);
  }
  remaining_.add_step(seconds);
}

void StepReporter::take_phases_between_steps() {
  const std::vector<PhaseTimer::Sample> samples = s_.phase.take();
  add(samples);
  if (progress_) progress_->add_phases(samples);
}

StepRecord StepReporter::step_record(const StepStats& stats, double seconds,
                                     const std::vector<PhaseTimer::Sample>& phases) {
  const ProcessMemory memory = process_memory();
  StepRecord record{.stats = stats,
                    .step_seconds = seconds,
                    .phases = phases,
                    .comm = s_.comms.counters(),
                    .resident_bytes = memory.resident_bytes,
                    .peak_resident_bytes = memory.peak_resident_bytes};
  if (s_.trainer->loss_scale.is_dynamic()) record.loss_scale = stats.loss_scale;
  if (s_.local.ops->on_host()) return record;
  // A query to the driver is slow, and all GPU memory is reserved before the first step.
  if (gpu_memory_bytes_ == 0 || stats.step % s_.job.frequent == 0) {
    const Ops::DeviceMemory gpu = s_.local.ops->memory();
    gpu_memory_bytes_ = gpu.total - gpu.free;
  }
  record.gpu_memory_bytes = gpu_memory_bytes_;
  return record;
}

void StepReporter::log_window(const StepRecord& record) {
  const double elapsed = seconds_since(window_start_);
  LogWindow window{.samples_per_second = static_cast<double>(window_samples_) / elapsed,
                   .loss = window_loss_ / static_cast<double>(window_steps_),
                   .lr = record.stats.lr,
                   .epoch = record.stats.epoch,
                   .step = record.stats.step,
                   .loss_scale = record.loss_scale,
                   .seconds_left = remaining_.after(record.stats.step)};
  if (record.stats.distillation_loss) {
    window.distillation_loss = window_distillation_loss_ / static_cast<double>(window_steps_);
  }
  if (record.stats.logits_loss) {
    window.logits_loss = window_logits_loss_ / static_cast<double>(window_steps_);
  }
  message(speed_message(window));
  to_board([&](TensorBoardLog& board) { board.line(window); });
  window_loss_ = 0;
  window_distillation_loss_ = 0;
  window_logits_loss_ = 0;
  window_samples_ = 0;
  window_steps_ = 0;
  window_start_ = Clock::now();
}

void StepReporter::sample(std::int64_t step) {
  const StepSample sample = s_.phase("sample", [&] { return s_.trainer->sample(s_.comms.host()); });
  s_.phase("log", [&] { to_board([&](TensorBoardLog& board) { board.sample(step, sample); }); });
}

// On a GPU, the host waits for the slowest worker whenever it needs a result. So on GPUs, the
// returned time differs between workers only by the time that each waits for its own data.
double StepReporter::own_seconds(const StepStats& stats, double seconds,
                                 const std::vector<PhaseTimer::Sample>& phases) const {
  double waited = s_.comms.step->counters().call_seconds - calls_before_;
  for (const PhaseTimer::Sample& sample : phases) {
    if (std::string_view(sample.phase) == "gradient_wait") waited += sample.seconds;
  }
  const double of_others = stats.data_wait_seconds - stats.own_data_wait_seconds;
  return std::max(seconds - waited - std::max(of_others, 0.0), 0.0);
}

std::string StepReporter::device() const {
  return s_.local.ops->on_host() ? "cpu" : "cuda:" + std::to_string(s_.membership.local_rank);
}

Progress StepReporter::progress_of_session() const {
  return {.total_steps = s_.plan.last_step,
          .device = device(),
          .saved_step = s_.plan.start.step,
          .checkpoint_step = s_.loaded_from_disk ? s_.plan.start.step : 0,
          .output_unshared = s_.comms.output.only_one_host_sees(s_.comms.hosts),
          .resumed_images = s_.plan.start.images,
          .most_workers = most_workers(s_.local.planned()),
          .least_workers =
              s_.membership.rank > 0
                  ? 0
                  : least_workers(s_.local.planned(), s_.local.memory.available,
                                  s_.membership.local_world_size == s_.membership.world_size),
          .loader_threads = static_cast<int>(s_.job.num_workers)};
}

Progress StepReporter::progress(const StepRecord& r) const {
  Progress p = so_far_;
  p.step = r.stats.step;
  p.images_seen = s_.plan.after(r.stats.step).images;
  p.epoch = r.stats.epoch;
  p.loss = r.stats.loss;
  p.distillation_loss = r.stats.distillation_loss;
  p.logits_loss = r.stats.logits_loss;
  p.lr = r.stats.lr;
  p.samples_per_second =
      static_cast<double>(r.stats.samples) / r.step_seconds / s_.membership.world_size;
  p.resident_bytes = r.resident_bytes;
  p.gpu_memory_bytes = r.gpu_memory_bytes.value_or(0);
  p.gradient_norm = r.stats.gradient_norm;
  p.loss_scale = r.loss_scale.value_or(0);
  for (const PhaseTimer::Sample& s : r.phases) p.phases.push_back({s.phase, s.seconds});
  return p;
}

std::uint64_t StepReporter::skipped_images(const StepStats& stats) {
  if (stats.epoch != epoch_) skipped_before_ += std::exchange(skipped_in_epoch_, 0);
  epoch_ = stats.epoch;
  skipped_in_epoch_ = static_cast<std::uint64_t>(stats.skipped_images);
  return skipped_before_ + skipped_in_epoch_;
}

}  // namespace pfc
