// What a person sees of training: arcface_torch's log lines, and metrics.jsonl with one object a
// step.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "worker/evaluation/evaluation.h"
#include "worker/report/phase_timer.h"
#include "worker/report/step_stats.h"

namespace pfc {

/// "Training: 2026-05-12 00:00:42,110-" + message, local time, as arcface_torch's logger writes it.
std::string training_line(std::chrono::system_clock::time_point when, std::string_view message);

/// "Speed 884.42 samples/sec   Loss 47.2532   LearningRate 0.1000   Epoch: 0   Global Step: 100
///    Required: 3 hours"; with "Fp16 Grad Scale: 65536" where there is a loss scale.
struct LogWindow {
  double samples_per_second = 0;
  double loss = 0;  ///< mean over the window
  double lr = 0;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::optional<double> loss_scale;
  double seconds_left = 0;
};
std::string speed_message(const LogWindow& window);

/// "3 hours", "95 minutes", "45 seconds": hours from 2 hours on, minutes from 2 minutes on.
std::string time_left(double seconds);

/// Estimates how long the rest of a job takes from the durations of its latest steps, of its
/// evaluations, and of its checkpoints, of which only the time that training waits for them counts.
class RemainingTime {
 public:
  struct Schedule {
    std::int64_t last_step = 0;
    std::int64_t verbose = 0;           ///< steps between evaluations; 0: only after the last step
    std::int64_t save_every_steps = 0;  ///< steps between checkpoints; 0: only after the last step
  };
  explicit RemainingTime(const Schedule& schedule) : schedule_(schedule) {}

  void add_step(double seconds);
  void add_evaluation(double seconds) { evaluations_.add(seconds); }
  /// How long training waited for checkpoints after `step`. Where save_every_steps has asked for
  /// none after this step, the time is spread over all steps.
  void add_checkpoint(std::int64_t step, double seconds);

  /// Seconds from the end of `step` on. What has not been measured yet, such as the first
  /// evaluation, counts nothing.
  [[nodiscard]] double after(std::int64_t step) const;

 private:
  struct Mean {
    double sum = 0;
    double count = 0;
    void add(double value) {
      sum += value;
      count += 1;
    }
    [[nodiscard]] double value() const { return count > 0 ? sum / count : 0; }
  };

  const Schedule schedule_;
  Mean steps_;  ///< of the latest steps, mostly
  Mean evaluations_;
  Mean checkpoints_;  ///< those of save_every_steps
  Mean others_;       ///< all other waits, for each step
};

/// "where the time went: backward 55.1 %, forward 31.0 %, head 9.2 %, ...": seconds of each phase,
/// as parts of their sum, the longest first.
std::string time_message(const std::map<std::string, double>& phases);

struct StepRecord {
  std::int64_t step = 0;
  StepStats stats;
  double step_seconds = 0;
  std::vector<PhaseTimer::Sample> phases;
  CommCounters comm;  ///< of the training collectives since the start
  std::uint64_t resident_bytes = 0;
  std::uint64_t peak_resident_bytes = 0;
  std::uint64_t gpu_memory_bytes = 0;  ///< in use of rank 0's GPU, by whomever; 0 on a CPU
};

struct TrainingLogOptions {
  std::filesystem::path output;
  std::int64_t global_batch = 0;    ///< images of a step
  std::int64_t resumed_images = 0;  ///< seen when the checkpoint was written; 0: a fresh run
};

/// Writes training.log and metrics.jsonl in the output folder, and stdout. Only rank 0 has one.
class TrainingLog {
 public:
  /// Keeps what an earlier run wrote of the images that the checkpoint has seen, so that none is
  /// told of twice in metrics.jsonl; a fresh run starts empty files. Throws StorageError.
  explicit TrainingLog(TrainingLogOptions options);

  void message(std::string_view text);  ///< one line to training.log and stdout
  void step(const StepRecord& record);  ///< one object to metrics.jsonl
  void evaluation(std::int64_t step, const VerificationResult& result);  ///< both

 private:
  void check_written();

  const TrainingLogOptions options_;
  std::ofstream log_;
  std::ofstream metrics_;
};

}  // namespace pfc
