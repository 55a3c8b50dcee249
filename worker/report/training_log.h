// What rank 0 writes about training: log lines as arcface_torch's, and metrics.jsonl with one JSON
// object for each event.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/comm.h"
#include "common/files/append_file.h"
#include "common/ids.h"
#include "model/evaluation/evaluation.h"
#include "worker/checkpoint/checkpoint_schedule.h"
#include "worker/report/phase_timer.h"
#include "worker/report/step_stats.h"
#include "worker/schedule/step_plan.h"

namespace pfc {

/// "2026-05-12T00:00:42.110Z": a time of metrics.jsonl.
std::string utc_time(std::chrono::system_clock::time_point when);

/// "Training: 2026-05-12 00:00:42,110-" + message, local time, as arcface_torch's logger writes it.
std::string training_line(std::chrono::system_clock::time_point when, std::string_view message);

/// The numbers of one log line: of the steps since the line before.
///
/// "Speed 884.42 samples/sec   Loss 47.2532   LearningRate 0.1000   Epoch: 0   Global Step: 100   "
/// "Required: 3 hours". Where there is a loss scale, "Fp16 Grad Scale: 65536   " precedes
/// "Required".
struct LogWindow {
  double samples_per_second = 0;
  double loss = 0;  ///< mean over the steps of the window
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
    std::int64_t verbose = 0;  ///< planned steps between evaluations; 0: only after the last step
    std::int64_t save_every_steps = 0;  ///< and between checkpoints
  };
  RemainingTime(const StepPlan& plan, const Schedule& schedule)
      : plan_(plan), schedule_(schedule) {}

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

  const StepPlan plan_;
  const Schedule schedule_;
  Mean steps_;  ///< of the latest steps, mostly
  Mean evaluations_;
  Mean checkpoints_;  ///< those of save_every_steps
  Mean others_;       ///< all other waits, for each step
};

/// "where the time went: backward 55.1 %, forward 31.0 %, head 9.2 %, ...": the share of each phase
/// in the seconds of all phases, the largest first.
std::string time_message(const std::map<std::string, double>& phases);

/// What a worker's communicators have done since it started, by their purpose: "step" (embeddings
/// and row statistics; evaluations), "gradients", "inputs" (labels and signals), and on a GPU
/// "host" (evaluations and checkpoints); "output" (checkpoints, where hosts do not share the
/// folder).
using Communicated = std::map<std::string, CommCounters>;

/// Training begins, from the start or from a checkpoint.
struct StartRecord {
  std::int64_t steps_done = 0;  ///< of this job's steps, when it begins
  std::int64_t last_step = 0;
  std::string network;
  std::string device;
  std::string precision;
  std::int64_t classes = 0;
  std::int64_t images = 0;  ///< of the data set
  int workers = 1;
  std::int64_t batch_size = 0;  ///< of a worker
};

struct StepRecord {
  StepStats stats;
  double step_seconds = 0;
  std::vector<PhaseTimer::Sample> phases;  ///< of this step
  Communicated comm;
  std::uint64_t resident_bytes = 0;               ///< host memory of the process
  std::uint64_t peak_resident_bytes = 0;          ///< the most that it was so far
  std::optional<std::uint64_t> gpu_memory_bytes;  ///< in use on its GPU, by any process
  std::optional<double> loss_scale;               ///< where gradients have one
};

/// Training ends, but not by an error.
struct EndRecord {
  std::int64_t step = 0;
  std::string reason;                           ///< "completed", "stopped" or "failed"
  double seconds = 0;                           ///< since the start
  std::map<std::string, double> phase_seconds;  ///< all phases since the start
};

struct TrainingLogOptions {
  std::filesystem::path output;
  TrainedSoFar start = {};        ///< from where training goes on; no images: a fresh run
  std::int64_t global_batch = 0;  ///< images of a step
  Generation generation = 1;
};

/// In the output folder: event files (worker/tensorboard/tensorboard_log.h).
inline constexpr const char* kTensorBoardFolder = "tensorboard";

/// Writes training.log, metrics.jsonl (docs/observability.md lists its keys) and stdout. Only rank
/// 0 has one. Every member throws StorageError when a file cannot be written.
class TrainingLog {
 public:
  /// A fresh run starts with empty files: those that an earlier one has left get other names
  /// (training.log.old-1), its model too, and the log says so. A resumed one drops the events of
  /// steps that will be trained again: those with more images seen than its start (event_tail.h).
  /// Files of earlier versions, whose events have no kind, are continued in the same way. REQUIRES:
  /// the output folder is there, and is this job's.
  explicit TrainingLog(TrainingLogOptions options);

  /// One line to training.log and stdout.
  void message(std::string_view text);

  // Each of these adds one event to metrics.jsonl. evaluation() also logs two lines.
  void start(const StartRecord& record);
  void step(const StepRecord& record);
  void evaluation(std::int64_t step, const VerificationResult& result);
  void evaluation(std::int64_t step, const RetrievalResult& result);
  void checkpoint(const CheckpointEvent& event);
  void end(const EndRecord& record);

 private:
  /// An event with the keys that all have.
  [[nodiscard]] nlohmann::ordered_json event(const char* kind, std::int64_t step) const;
  void write(const nlohmann::ordered_json& event);

  const TrainingLogOptions options_;
  std::optional<AppendFile> log_;  // set by the constructor, as is the next one
  std::optional<AppendFile> metrics_;
};

}  // namespace pfc
