#include "worker/train_loop.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "common/clock.h"
#include "common/counted.h"
#include "common/machine/process_memory.h"
#include "worker/memory/memory_advice.h"
#include "worker/report/progress_reporter.h"
#include "worker/report/training_log.h"

namespace pfc {
namespace {

double seconds_since(TimePoint start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What rank 0 writes and every worker reports after a step.
class StepReporter {
 public:
  StepReporter(TrainingSession& session, CoordinatorClient* coordinator)
      : s_(session),
        remaining_({.last_step = session.plan.last_step,
                    .verbose = session.job.verbose,
                    .save_every_steps = session.job.save_every_steps}),
        window_start_(Clock::now()) {
    if (coordinator != nullptr) progress_.emplace(*coordinator, s_.phase);
    if (s_.membership.rank != 0) return;
    log_.emplace(TrainingLogOptions{.output = s_.job.output,
                                    .global_batch = s_.plan.global_batch,
                                    .resumed_images = s_.resumed_images});
  }

  void start() {
    if (!log_) return;
    const JobConfig& job = s_.job;
    log_->message(job.network + ", " + std::to_string(job.num_classes) + " classes, " +
                  std::to_string(job.num_image) + " images; " +
                  counted(s_.membership.world_size, "worker") + " x batch " +
                  std::to_string(job.batch_size) + "; " + s_.ops->description() + "; " +
                  s_.step_comm->description());
    log_->message(memory_message(s_.memory));
    log_->message(s_.start_message + "; " + std::to_string(s_.plan.last_step) + " steps, " +
                  std::to_string(s_.plan.warmup_steps) + " of warm-up");
  }

  void step(std::int64_t step, const StepStats& stats, double seconds) {
    const ProcessMemory memory = process_memory();
    // Asking takes the driver a while, and all of it is reserved before the first step.
    if (gpu_memory_bytes_ == 0 || step % s_.job.frequent == 0) {
      const Ops::DeviceMemory gpu = s_.ops->memory();
      gpu_memory_bytes_ = gpu.total - gpu.free;
    }
    const StepRecord record{.step = step,
                            .stats = stats,
                            .step_seconds = seconds,
                            .phases = s_.phase.take(),
                            .comm = s_.step_comm->counters(),
                            .resident_bytes = memory.resident_bytes,
                            .peak_resident_bytes = memory.peak_resident_bytes,
                            .gpu_memory_bytes = gpu_memory_bytes_};
    data_wait_ += stats.data_wait_seconds;
    remaining_.add_step(seconds);
    for (const PhaseTimer::Sample& s : record.phases) phase_seconds_[s.phase] += s.seconds;
    if (log_) log_->step(record);
    if (progress_) progress_->update(progress(record));
    window_loss_ += stats.loss;
    window_samples_ += stats.samples;
    ++window_steps_;
    if (step % s_.job.frequent == 0 || step == s_.plan.last_step) log_window(record);
  }

  /// How long training waited after a step, for the time that is left.
  void evaluated(double seconds) { remaining_.add_evaluation(seconds); }
  void checkpointed(std::int64_t step, double seconds) { remaining_.add_checkpoint(step, seconds); }

  void evaluation(std::int64_t step, const VerificationResult& result) {
    if (log_) log_->evaluation(step, result);
  }
  void message(const std::string& text) {
    if (log_) log_->message(text);
  }
  void end() {
    if (!phase_seconds_.empty()) message(time_message(phase_seconds_));
  }

 private:
  void log_window(const StepRecord& record) {
    const std::chrono::duration<double> elapsed = Clock::now() - window_start_;
    if (log_) {
      log_->message(speed_message(
          {.samples_per_second = static_cast<double>(window_samples_) / elapsed.count(),
           .loss = window_loss_ / static_cast<double>(window_steps_),
           .lr = record.stats.lr,
           .epoch = record.stats.epoch,
           .step = record.step,
           .loss_scale =
               s_.loss_scale.is_dynamic() ? std::optional(record.stats.loss_scale) : std::nullopt,
           .seconds_left = remaining_.after(record.step)}));
    }
    window_loss_ = 0;
    window_samples_ = 0;
    window_steps_ = 0;
    window_start_ = Clock::now();
  }

  [[nodiscard]] Progress progress(const StepRecord& r) const {
    Progress p{
        .step = r.step,
        .total_steps = s_.plan.last_step,
        .epoch = r.stats.epoch,
        .loss = r.stats.loss,
        .lr = r.stats.lr,
        .samples_per_second =
            static_cast<double>(r.stats.samples) / r.step_seconds / s_.membership.world_size,
        .data_wait_seconds = data_wait_,
        .memory_used_bytes = r.resident_bytes,
        .device = s_.ops->on_host() ? "cpu" : "cuda:" + std::to_string(s_.membership.local_rank),
        .phases = {},
        .comm_bytes = r.comm.bytes,
        .comm_calls = r.comm.calls,
        .skipped_images = static_cast<std::uint64_t>(r.stats.skipped_images)};
    for (const PhaseTimer::Sample& s : r.phases) p.phases.push_back({s.phase, s.seconds});
    return p;
  }

  TrainingSession& s_;
  std::optional<ProgressReporter> progress_;
  std::optional<TrainingLog> log_;
  RemainingTime remaining_;
  TimePoint window_start_;
  std::map<std::string, double> phase_seconds_;  // of all steps so far
  double window_loss_ = 0;
  double data_wait_ = 0;
  std::int64_t window_samples_ = 0;
  std::int64_t window_steps_ = 0;
  std::uint64_t gpu_memory_bytes_ = 0;
};

void evaluate_all(TrainingSession& s, std::int64_t step, StepReporter& reporter) {
  if (s.verification_sets.empty()) return;
  const TimePoint start = Clock::now();
  // Without sync_bn each worker has running statistics of its own batches. The model that is
  // written is rank 0's: that one is evaluated. Training itself never reads them.
  s.step_comm->broadcast(s.backbone->state.flat(), 0);
  const Trainer t = s.trainer();
  const EmbedBatch embed = [&](std::span<const std::uint8_t> images, std::span<float> out) {
    t.ops.copy_to_device(t.images_u8, images.data());
    t.ops.normalise_images(t.images_u8, t.images);
    t.ops.copy_to_host(out.data(), t.backbone.forward(t.images, /*training=*/false, step));
  };
  const EvaluationOptions options{.batch = s.job.batch_size,
                                  .height = s.dataset->info().height,
                                  .width = s.dataset->info().width,
                                  .embedding_size = s.job.embedding_size};
  for (const VerificationSet& set : s.verification_sets) {
    reporter.evaluation(
        step, s.phase("evaluate", [&] { return evaluate(set, s.host_comm(), embed, options); }));
  }
  reporter.evaluated(seconds_since(start));
}

void write_model(TrainingSession& s) {
  const std::vector<HostTensor> tensors = export_state_dict(*s.ops, *s.backbone);
  std::vector<SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const HostTensor& t : tensors) entries.push_back({t.name, t.dtype, t.shape, t.bytes});
  write_safetensors(s.job.output / "backbone.safetensors", entries, {{"network", s.job.network}});
}

}  // namespace

TrainingEnd train(TrainingSession& s, CoordinatorClient* coordinator) {
  StepReporter reporter(s, coordinator);
  reporter.start();
  Trainer trainer = s.trainer();
  const std::int64_t last = s.plan.last_step;

  for (std::int64_t step = s.first_step; step <= last; ++step) {
    const TimePoint start = Clock::now();
    const StepStats stats = train_step(trainer, step);
    reporter.step(step, stats, seconds_since(start));

    if (step == last) break;
    if (stats.signals.stop) {
      s.phase("checkpoint", [&] { s.checkpoints->finish(step); });
      reporter.end();
      reporter.message("stopped after step " + std::to_string(step) + ", checkpoint written");
      return TrainingEnd::kStopped;
    }
    const TimePoint checkpoint = Clock::now();
    s.phase("checkpoint", [&] { s.checkpoints->after_step(step, stats.signals); });
    reporter.checkpointed(step, seconds_since(checkpoint));
    if (s.job.verbose > 0 && step % s.job.verbose == 0) evaluate_all(s, step, reporter);
  }

  if (s.first_step <= last) {
    s.phase("checkpoint", [&] {
      // No step of this schedule will follow: the checkpoint holds the centres as they are now.
      if (last == s.plan.total_steps) s.head->settle_all();
      s.checkpoints->finish(last);
    });
  }
  evaluate_all(s, std::max(last, s.first_step - 1), reporter);  // resumed beyond it: nothing to do
  if (s.membership.rank == 0) write_model(s);
  reporter.end();
  reporter.message("training is complete: " + (s.job.output / "backbone.safetensors").string());
  return TrainingEnd::kCompleted;
}

}  // namespace pfc
