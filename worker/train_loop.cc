#include "worker/train_loop.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "common/clock.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/machine/process_memory.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/memory/memory_advice.h"
#include "worker/report/progress_reporter.h"
#include "worker/report/training_log.h"

namespace pfc {
namespace {

constexpr const char* kModel = "backbone.safetensors";

double seconds_since(TimePoint start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What rank 0 logs, and every worker reports to the coordinator. When rank 0 can no longer log
/// during training, or its output folder is no longer there, all workers are asked to stop, and
/// failure() says why.
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
      first.step = std::min(s_.first_step - 1, s_.plan.last_step);
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
      to_log([&](TrainingLog& log) { log.step(record); });
      window_loss_ += stats.loss;
      window_samples_ += stats.samples;
      ++window_steps_;
      if (stats.step % s_.job.frequent == 0 || stats.step == s_.plan.last_step) log_window(record);
    });
    if (progress_) progress_->update(progress(record));
    take_phases_between_steps();
    check_output();
  }

  /// How long training waited after a step, for the time that is left.
  void evaluated(double seconds) { remaining_.add_evaluation(seconds); }
  void checkpointed(std::int64_t step, double seconds) { remaining_.add_checkpoint(step, seconds); }

  void evaluation(std::int64_t step, const VerificationResult& result) {
    to_log([&](TrainingLog& log) { log.evaluation(step, result); });
    take_phases_between_steps();
  }
  void checkpoint(const std::vector<CheckpointEvent>& events) {
    for (const CheckpointEvent& event : events) {
      to_log([&](TrainingLog& log) { log.checkpoint(event); });
    }
    take_phases_between_steps();
  }
  void message(const std::string& text) {
    to_log([&](TrainingLog& log) { log.message(text); });
  }
  void end(std::int64_t step, const std::string& reason) {
    take_phases_between_steps();
    if (!phase_seconds_.empty()) message(time_message(phase_seconds_));
    to_log([&](TrainingLog& log) {
      log.end({.step = step,
               .reason = reason,
               .seconds = seconds_since(start_),
               .phase_seconds = phase_seconds_});
    });
  }

  /// Whether the output folder is still there and this job's. One that was removed is made anew, so
  /// that the state can be saved there.
  void check_output() {
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

  /// Why this worker cannot go on, although its state is sound; empty: it can.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  template <typename Write>
  void to_log(Write write) {
    if (!log_) return;
    try {
      write(*log_);
    } catch (const StorageError& error) {
      fail(error.what());
    }
  }

  void fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
    log_.reset();
    s_.end_early = true;
  }

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
    message(
        speed_message({.samples_per_second = static_cast<double>(window_samples_) / elapsed.count(),
                       .loss = window_loss_ / static_cast<double>(window_steps_),
                       .lr = record.stats.lr,
                       .epoch = record.stats.epoch,
                       .step = record.stats.step,
                       .loss_scale = record.loss_scale,
                       .seconds_left = remaining_.after(record.stats.step)}));
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
  std::string failure_;
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
    try {
      reporter.evaluation(
          step, s.phase("evaluate", [&] { return evaluate(set, s.host_comm(), embed, options); }));
    } catch (const InputError& error) {
      throw DataFailed(error.what(), true);  // all workers find the same
    }
  }
  reporter.evaluated(seconds_since(start));
}

void write_model(TrainingSession& s) {
  const std::vector<HostTensor> tensors = export_state_dict(*s.ops, *s.backbone);
  std::vector<SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const HostTensor& t : tensors) entries.push_back({t.name, t.dtype, t.shape, t.bytes});
  write_safetensors(s.job.output / kModel, entries, {{"network", s.job.network}});
}

void save_checkpoint(TrainingSession& s, std::int64_t done, StepReporter& reporter) {
  reporter.checkpoint(s.phase("checkpoint", [&] { return s.checkpoints->finish(done); }));
}

void save_model(TrainingSession& s) {
  if (s.membership.rank == 0) s.phase("write_model", [&] { write_model(s); });
}

/// For messages: "; the state after step 7 is in out/step-000000007". Empty where it is not.
std::string where_saved(const TrainingSession& s, std::int64_t done) {
  const std::filesystem::path folder = s.job.output / checkpoint_format::folder_name(done);
  std::error_code not_there;
  if (!std::filesystem::exists(folder, not_there)) return {};
  return "; the state after step " + std::to_string(done) + " is in " + folder.string();
}

/// Where no step is complete, the state is still the one that was loaded. A worker that has a
/// failure throws it, after all have written a checkpoint.
TrainingEnd stop(TrainingSession& s, std::int64_t done, StepReporter& reporter) {
  const bool moved = done >= s.first_step;
  try {
    if (moved) save_checkpoint(s, done, reporter);
    if (moved && !reporter.failure().empty()) save_model(s);
  } catch (const StorageError& error) {
    if (reporter.failure().empty()) throw;
    throw StorageError(reporter.failure() + "; and the state could not be saved: " + error.what());
  }
  reporter.end(done, "stopped");
  reporter.message(moved ? "stopped after step " + std::to_string(done) + ", checkpoint written"
                         : "stopped before step " + std::to_string(s.first_step) +
                               " was complete, there is nothing to write");
  if (!reporter.failure().empty()) throw StorageError(reporter.failure() + where_saved(s, done));
  return TrainingEnd::kStopped;
}

/// All workers get here at the same place, with the state as it was after step `done`.
TrainingEnd end_without_data(TrainingSession& s, std::int64_t done, StepReporter& reporter,
                             const DataFailed& failed) {
  std::string saved;
  try {
    if (done >= s.first_step) {
      save_checkpoint(s, done, reporter);
      save_model(s);
      s.host_comm().barrier();  // no worker fails before the model is written: the others are ended
      saved = where_saved(s, done);
    }
  } catch (const std::exception& error) {
    if (!failed.mine()) throw;
    throw InputError(std::string(failed.what()) +
                     "; and the state could not be saved: " + error.what());
  }
  reporter.end(done, "failed");
  if (failed.mine()) throw InputError(failed.what() + saved);
  reporter.message(failed.what() + saved);
  return TrainingEnd::kStopped;
}

TrainingEnd complete(TrainingSession& s, std::int64_t done, StepReporter& reporter) {
  const bool trained = s.first_step <= s.plan.last_step;
  if (trained) {
    // No step of this schedule follows, so the checkpoint gets the centres as they are now.
    s.phase("checkpoint", [&] {
      if (done == s.plan.total_steps) s.head->settle_all();
    });
    save_checkpoint(s, done, reporter);
  }
  save_model(s);
  evaluate_all(s, done, reporter);
  reporter.check_output();
  reporter.end(done, "completed");
  const std::string model = (s.job.output / kModel).string();
  reporter.message(trained ? "training is complete: " + model
                           : "nothing was left to train; the model is in " + model);
  if (!reporter.failure().empty()) throw StorageError(reporter.failure() + where_saved(s, done));
  return TrainingEnd::kCompleted;
}

/// `done` is always the number of the last step whose changes are all there.
TrainingEnd train_from(TrainingSession& s, std::int64_t& done, StepReporter& reporter) {
  Trainer trainer = s.trainer();
  while (done < s.plan.last_step) {
    const TimePoint start = Clock::now();
    const StepStats stats = train_step(trainer);
    if (stats.complete) {
      done = stats.step;
      reporter.step(stats, seconds_since(start));
    }

    if (done == s.plan.last_step) break;
    if (stats.signals.stop) return stop(s, done, reporter);
    const TimePoint checkpoint = Clock::now();
    reporter.checkpoint(
        s.phase("checkpoint", [&] { return s.checkpoints->after_step(done, stats.signals); }));
    reporter.checkpointed(done, seconds_since(checkpoint));
    if (s.job.verbose > 0 && done % s.job.verbose == 0) evaluate_all(s, done, reporter);
  }
  return complete(s, done, reporter);
}

}  // namespace

TrainingEnd train(TrainingSession& s, CoordinatorClient* coordinator) {
  StepReporter reporter(s, coordinator);
  reporter.start();
  std::int64_t done = s.first_step - 1;  // may lie beyond the last step when the job was resumed
  try {
    return train_from(s, done, reporter);
  } catch (const DataFailed& failed) {
    return end_without_data(s, done, reporter, failed);
  }
}

}  // namespace pfc
