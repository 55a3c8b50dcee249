// Rank 0's training output: arcface_torch's log lines, and metrics.jsonl with an object per event.
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
#include "worker/head/paging/paged_memory.h"
#include "worker/report/phase_timer.h"
#include "worker/report/step_stats.h"
#include "worker/schedule/step_plan.h"

namespace pfc {

/// Returns a time as in metrics.jsonl: "2026-05-12T00:00:42.110Z".
std::string utc_time(std::chrono::system_clock::time_point when);

/// Returns "Training: 2026-05-12 00:00:42,110-" + message (local time), as in arcface_torch.
std::string training_line(std::chrono::system_clock::time_point when, std::string_view message);

/// Content of one log line, about the steps since the previous line.
///
/// "Speed 884.42 samples/sec   Loss 47.2532   LearningRate 0.1000   Epoch: 0   Global Step: 100   "
/// "Required: 3 hours". If there is a loss scale, "Fp16 Grad Scale: 65536   " precedes "Required".
/// With a teacher, "Distillation Loss 0.4712   " and "Logits Loss 1.2034   " follow the loss.
struct LogWindow {
  double samples_per_second = 0;
  double loss = 0;                               ///< mean over the steps of the window
  std::optional<double> distillation_loss = {};  ///< same mean
  std::optional<double> logits_loss = {};        ///< same mean
  double lr = 0;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::optional<double> loss_scale;
  double seconds_left = 0;
};
std::string speed_message(const LogWindow& window);

/// Returns "3 hours" (from 2 hours on), "95 minutes" (from 2 minutes on) or "45 seconds".
std::string time_left(double seconds);

/// Estimates the remaining time of a job from the durations of its recent steps, its evaluations
/// and its checkpoints. For checkpoints only the time that training waits counts.
class RemainingTime {
 public:
  struct Schedule {
    std::int64_t verbose = 0;  ///< planned steps between evaluations; 0: only after the last step
    std::int64_t save_every_steps = 0;  ///< planned steps between checkpoints
  };
  RemainingTime(const StepPlan& plan, const Schedule& schedule)
      : plan_(plan), schedule_(schedule) {}

  void add_step(double seconds);
  void add_evaluation(double seconds) { evaluations_.add(seconds); }
  /// Adds the time that training waited for checkpoints after `step`. If save_every_steps did not
  /// require a checkpoint after this step, the time is spread over all steps.
  void add_checkpoint(std::int64_t step, double seconds);

  /// Returns the seconds remaining after `step`. Anything not measured yet counts as 0.
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
  Mean steps_;  ///< weighted towards recent steps
  Mean evaluations_;
  Mean checkpoints_;  ///< the checkpoints that save_every_steps requires
  Mean others_;       ///< all other waits, averaged over steps
};

/// Returns the share of each phase in the total, largest first: "where the time went: backward
/// 55.1 %, forward 31.0 %, head 9.2 %, ...".
std::string time_message(const std::map<std::string, double>& phases);
/// Returns a line about the reads and writes of class centres that are on disk.
std::string paging_message(const PagingCounters& paging);

/// Totals of a worker's communicators since its start, by purpose: "step" (embeddings and row
/// statistics; evaluations), "gradients", "inputs" (labels and signals), on a GPU "host"
/// (evaluations and checkpoints), and "output" (checkpoints, if hosts do not share the folder).
using Communicated = std::map<std::string, CommCounters>;

/// Record of the start of training, from scratch or from a checkpoint.
struct StartRecord {
  std::int64_t steps_done = 0;  ///< steps of this job already done
  std::int64_t last_step = 0;
  std::string network;
  std::string device;
  std::string precision;
  std::int64_t classes = 0;
  std::int64_t images = 0;  ///< images in the data set
  int workers = 1;
  std::int64_t batch_size = 0;  ///< per worker
};

struct StepRecord {
  StepStats stats;
  double step_seconds = 0;
  std::vector<PhaseTimer::Sample> phases;  ///< phases of this step
  Communicated comm;
  std::uint64_t resident_bytes = 0;       ///< host memory of the process
  std::uint64_t peak_resident_bytes = 0;  ///< maximum so far
  /// Memory in use on this worker's GPU, by any process.
  std::optional<std::uint64_t> gpu_memory_bytes;
  std::optional<double> loss_scale;  ///< empty if the job has none
};

/// Record of the end of training without an error.
struct EndRecord {
  std::int64_t step = 0;
  std::string reason;                           ///< "completed", "stopped" or "failed"
  double seconds = 0;                           ///< since the start
  std::map<std::string, double> phase_seconds;  ///< total per phase since the start
};

struct TrainingLogOptions {
  std::filesystem::path output;
  TrainedSoFar start = {};        ///< where training continues; 0 images: a fresh run
  std::int64_t global_batch = 0;  ///< images per step
  Generation generation = 1;
};

/// Folder for event files inside the output folder (worker/tensorboard/tensorboard_log.h).
inline constexpr const char* kTensorBoardFolder = "tensorboard";

/// Writes training.log, metrics.jsonl (keys: docs/observability.md) and stdout. Only rank 0 has
/// one. All members throw StorageError when a file cannot be written.
class TrainingLog {
 public:
  /// A fresh run starts with empty files: earlier files, including the model, are renamed
  /// (training.log.old-1) and the log says so. A resumed run drops the events of steps that will be
  /// trained again: those that have seen more images than the state from which the run starts
  /// (event_tail.h). Files of earlier versions, whose events have no kind, are continued in the
  /// same way. REQUIRES: the output folder exists and belongs to this job.
  explicit TrainingLog(TrainingLogOptions options);

  /// Writes one line to training.log and stdout.
  void message(std::string_view text);

  // Each of these adds one event to metrics.jsonl. evaluation() also logs two lines.
  void start(const StartRecord& record);
  void step(const StepRecord& record);
  void evaluation(std::int64_t step, const VerificationResult& result);
  void evaluation(std::int64_t step, const RetrievalResult& result);
  void evaluation(std::int64_t step, const ClassificationResult& result);
  void checkpoint(const CheckpointEvent& event);
  void end(const EndRecord& record);

 private:
  /// Returns an event with the common keys.
  [[nodiscard]] nlohmann::ordered_json event(const char* kind, std::int64_t step) const;
  void write(const nlohmann::ordered_json& event);

  const TrainingLogOptions options_;
  std::optional<AppendFile> log_;  // set by the constructor, like metrics_
  std::optional<AppendFile> metrics_;
};

}  // namespace pfc
