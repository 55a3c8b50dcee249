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

/// What rank 0 logs, and every worker reports to the coordinator.
class StepReporter {
 public:
  StepReporter(TrainingSession& session, CoordinatorClient* coordinator)
      : s_(session),
        start_(Clock::now()),
        remaining_({.last_step = session.plan.last_step,
                    .verbose = session.job.verbose,
                    .save_every_steps = session.job.save_every_steps}),
        window_start_(start_) {
    if (coordinator != nullptr) {
      Progress first = progress_of_session();
      first.starting = true;
      first.step = s_.first_step - 1;
      first.resident_bytes = process_memory().resident_bytes;
      progress_.emplace(*coordinator, s_.phase, first);
    }
    if (s_.membership.rank != 0) return;
    log_.emplace(TrainingLogOptions{.output = s_.job.output,
                                    .global_batch = s_.plan.global_batch,
                                    .resumed_images = s_.resumed_images,
                                    .generation = s_.membership.generation});
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
    log_->message(s_.start_message + "; " + counted(s_.plan.last_step, "step") + ", " +
                  std::to_string(s_.plan.warmup_steps) + " of warm-up");
    log_->start({.steps_done = s_.first_step - 1,
                 .last_step = s_.plan.last_step,
                 .network = job.network,
                 .device = device(),
                 .precision = s_.job_json.at("precision"),
                 .classes = job.num_classes,
                 .images = job.num_image,
                 .workers = s_.membership.world_size,
                 .batch_size = job.batch_size});
  }

  void step(const StepStats& stats, double seconds) {
    const std::vector<PhaseTimer::Sample> phases = s_.phase.take();
    const StepRecord record =
        s_.phase("report", [&] { return step_record(stats, seconds, phases); });
    data_wait_ += stats.data_wait_seconds;
    remaining_.add_step(seconds);
    add(phases);
    s_.phase("log", [&] {
      if (log_) log_->step(record);
      window_loss_ += stats.loss;
      window_samples_ += stats.samples;
      ++window_steps_;
      if (stats.step % s_.job.frequent == 0 || stats.step == s_.plan.last_step) log_window(record);
    });
    if (progress_) progress_->update(progress(record));
    take_phases_between_steps();
  }

  /// How long training waited after a step, for the time that is left.
  void evaluated(double seconds) { remaining_.add_evaluation(seconds); }
  void checkpointed(std::int64_t step, double seconds) { remaining_.add_checkpoint(step, seconds); }

  void evaluation(std::int64_t step, const VerificationResult& result) {
    if (log_) log_->evaluation(step, result);
    take_phases_between_steps();
  }
  void checkpoint(const std::vector<CheckpointEvent>& events) {
    for (const CheckpointEvent& event : events) {
      if (log_) log_->checkpoint(event);
    }
    take_phases_between_steps();
  }
  void message(const std::string& text) {
    if (log_) log_->message(text);
  }
  void end(std::int64_t step, const std::string& reason) {
    take_phases_between_steps();
    if (!phase_seconds_.empty()) message(time_message(phase_seconds_));
    if (!log_) return;
    log_->end({.step = step,
               .reason = reason,
               .seconds = seconds_since(start_),
               .phase_seconds = phase_seconds_});
  }

 private:
  void add(const std::vector<PhaseTimer::Sample>& samples) {
    for (const PhaseTimer::Sample& s : samples) phase_seconds_[s.phase] += s.seconds;
  }

  /// So that no step is charged for what happened before it.
  void take_phases_between_steps() {
    const std::vector<PhaseTimer::Sample> samples = s_.phase.take();
    add(samples);
    if (progress_) progress_->add_phases(samples);
  }

  [[nodiscard]] StepRecord step_record(const StepStats& stats, double seconds,
                                       const std::vector<PhaseTimer::Sample>& phases) {
    const ProcessMemory memory = process_memory();
    StepRecord record{.stats = stats,
                      .step_seconds = seconds,
                      .phases = phases,
                      .comm = s_.communicated(),
                      .resident_bytes = memory.resident_bytes,
                      .peak_resident_bytes = memory.peak_resident_bytes};
    if (s_.loss_scale.is_dynamic()) record.loss_scale = stats.loss_scale;
    if (s_.ops->on_host()) return record;
    // To ask the driver takes a while, and all memory is reserved before the first step.
    if (gpu_memory_bytes_ == 0 || stats.step % s_.job.frequent == 0) {
      const Ops::DeviceMemory gpu = s_.ops->memory();
      gpu_memory_bytes_ = gpu.total - gpu.free;
    }
    record.gpu_memory_bytes = gpu_memory_bytes_;
    return record;
  }

  void log_window(const StepRecord& record) {
    const std::chrono::duration<double> elapsed = Clock::now() - window_start_;
    if (log_) {
      log_->message(speed_message(
          {.samples_per_second = static_cast<double>(window_samples_) / elapsed.count(),
           .loss = window_loss_ / static_cast<double>(window_steps_),
           .lr = record.stats.lr,
           .epoch = record.stats.epoch,
           .step = record.stats.step,
           .loss_scale = record.loss_scale,
           .seconds_left = remaining_.after(record.stats.step)}));
    }
    window_loss_ = 0;
    window_samples_ = 0;
    window_steps_ = 0;
    window_start_ = Clock::now();
  }

  [[nodiscard]] std::string device() const {
    return s_.ops->on_host() ? "cpu" : "cuda:" + std::to_string(s_.membership.local_rank);
  }

  /// What is the same in every report.
  [[nodiscard]] Progress progress_of_session() const {
    return {.total_steps = s_.plan.last_step, .device = device()};
  }

  [[nodiscard]] Progress progress(const StepRecord& r) {
    Progress p = progress_of_session();
    p.step = r.stats.step;
    p.epoch = r.stats.epoch;
    p.loss = r.stats.loss;
    p.lr = r.stats.lr;
    p.samples_per_second =
        static_cast<double>(r.stats.samples) / r.step_seconds / s_.membership.world_size;
    p.data_wait_seconds = data_wait_;
    p.resident_bytes = r.resident_bytes;
    p.gpu_memory_bytes = r.gpu_memory_bytes.value_or(0);
    p.skipped_images = skipped_images(r.stats);
    for (const PhaseTimer::Sample& s : r.phases) p.phases.push_back({s.phase, s.seconds});
    for (const auto& [purpose, counters] : r.comm) {
      p.comm.push_back({purpose, counters.calls, counters.sent_bytes});
    }
    return p;
  }

  /// Of all epochs since the start.
  std::uint64_t skipped_images(const StepStats& stats) {
    if (stats.epoch != epoch_) skipped_before_ += std::exchange(skipped_in_epoch_, 0);
    epoch_ = stats.epoch;
    skipped_in_epoch_ = static_cast<std::uint64_t>(stats.skipped_images);
    return skipped_before_ + skipped_in_epoch_;
  }

  TrainingSession& s_;
  std::optional<ProgressReporter> progress_;
  std::optional<TrainingLog> log_;
  const TimePoint start_;
  std::map<std::string, double> phase_seconds_;  // of all phases so far
  double data_wait_ = 0;                         // of all steps so far
  std::int64_t epoch_ = 0;
  std::uint64_t skipped_before_ = 0;    // in epochs before this one
  std::uint64_t skipped_in_epoch_ = 0;  // in this epoch
  std::uint64_t gpu_memory_bytes_ = 0;
  RemainingTime remaining_;

  // Of the steps since the last log line.
  TimePoint window_start_;
  double window_loss_ = 0;
  std::int64_t window_samples_ = 0;
  std::int64_t window_steps_ = 0;
};

void evaluate_all(TrainingSession& s, std::int64_t step, StepReporter& reporter) {
  if (s.verification_sets.empty()) return;
  const TimePoint start = Clock::now();
  // Without sync_bn each worker has the running statistics of its own batches. The model that is
  // written has those of rank 0, so these are evaluated. Training itself never reads them.
  s.phase("evaluate", [&] { s.step_comm->broadcast(s.backbone->state.flat(), 0); });
  const EmbedBatch embed = [&](std::span<const std::uint8_t> images, std::span<float> out) {
    s.ops->copy_to_device(s.evaluated_images, images.data());
    s.ops->normalise_images(s.evaluated_images, s.backbone->input());
    s.ops->copy_to_host(out.data(),
                        s.backbone->forward(s.backbone->input(), /*training=*/false, step));
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

/// `done`: the last step that is complete. Where none is, the state is still the one that was
/// loaded.
TrainingEnd stop_after(std::int64_t done, TrainingSession& s, StepReporter& reporter) {
  const bool moved = done >= s.first_step;
  if (moved) {
    reporter.checkpoint(s.phase("checkpoint", [&] { return s.checkpoints->finish(done); }));
  }
  reporter.end(done, "stopped");
  reporter.message(moved ? "stopped after step " + std::to_string(done) + ", checkpoint written"
                         : "stopped before step " + std::to_string(s.first_step) +
                               " was complete, there is nothing to write");
  return TrainingEnd::kStopped;
}

}  // namespace

TrainingEnd train(TrainingSession& s, CoordinatorClient* coordinator) {
  StepReporter reporter(s, coordinator);
  reporter.start();
  Trainer trainer = s.trainer();
  const std::int64_t last = s.plan.last_step;
  std::int64_t done = s.first_step - 1;  // may lie beyond the last step when the job was resumed

  while (done < last) {
    const TimePoint start = Clock::now();
    const StepStats stats = train_step(trainer);
    if (stats.complete) {
      done = stats.step;
      reporter.step(stats, seconds_since(start));
    }

    if (done == last) break;
    if (stats.signals.stop) return stop_after(done, s, reporter);
    const TimePoint checkpoint = Clock::now();
    reporter.checkpoint(
        s.phase("checkpoint", [&] { return s.checkpoints->after_step(done, stats.signals); }));
    reporter.checkpointed(done, seconds_since(checkpoint));
    if (s.job.verbose > 0 && done % s.job.verbose == 0) evaluate_all(s, done, reporter);
  }

  if (s.first_step <= last) {
    reporter.checkpoint(s.phase("checkpoint", [&] {
      // No step of this schedule follows, so the checkpoint gets the centres as they are now.
      if (last == s.plan.total_steps) s.head->settle_all();
      return s.checkpoints->finish(last);
    }));
  }
  evaluate_all(s, done, reporter);
  if (s.membership.rank == 0) s.phase("write_model", [&] { write_model(s); });
  reporter.end(done, "completed");
  reporter.message("training is complete: " + (s.job.output / "backbone.safetensors").string());
  return TrainingEnd::kCompleted;
}

}  // namespace pfc
