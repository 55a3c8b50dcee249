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

/// "3 hours", "12 minutes", "45 seconds": the largest unit that is not zero.
std::string time_left(double seconds);

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
