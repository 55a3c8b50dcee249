// Builds and owns everything that one worker needs for one generation of a job.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/trace/recorder.h"
#include "data/prefetch/prefetcher.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_schedule.h"
#include "worker/checkpoint/output_lock.h"
#include "worker/schedule/step_plan.h"
#include "worker/snapshot/snapshot_maker.h"
#include "worker/start/local_start.h"
#include "worker/start/resume.h"
#include "worker/start/session_options.h"
#include "worker/start/worker_comms.h"
#include "worker/train_step.h"

namespace pfc {

/// Saves the state of training, to disk and to memory.
struct Saving {
  std::unique_ptr<CheckpointWriter> writer;
  std::unique_ptr<CheckpointSchedule> checkpoints;
  std::unique_ptr<SnapshotMaker> snapshots;  ///< null without snapshots
};

/// Members are declared in the order of construction; each uses only earlier ones.
class TrainingSession {
 public:
  /// Opens the data, checks the job and decodes the verification sets, reserves memory, connects
  /// to the other workers, takes the output folder, and loads the newest checkpoint or the job's
  /// initial weights. Throws InputError, CommError, DeviceError.
  TrainingSession(const JobConfig& job, const SessionOptions& options);

  TraceRecorder trace;  ///< records the activity of all other members
  PhaseTimer phase{trace.track(TraceRow::kPhases, "training")};
  JobConfig job;  ///< with num_classes and num_image of the data, and the chosen precision
  nlohmann::json job_json;
  const Membership membership;
  LocalStart local;                         ///< device, data and memory
  WorkerComms comms;                        ///< connections to the other workers
  std::unique_ptr<OutputLock> output_lock;  ///< held by rank 0; null on other workers
  StepPlan plan;
  bool loaded_from_disk = false;  ///< plan.start comes from a checkpoint in the output folder
  std::string start_message;      ///< says where the weights came from, for the log
  std::unique_ptr<Trainer> trainer;
  /// [B, H, W, 3] uint8, for images embedded outside of training steps.
  OwnedTensor evaluated_images;
  Saving saving;
  /// Makes all workers stop after a checkpoint. Set by a worker that cannot continue.
  std::atomic<bool> end_early = false;
  std::unique_ptr<Prefetcher> prefetcher;
  std::unique_ptr<StepInputs> inputs;

  [[nodiscard]] TrainingState state();
  /// Returns whether the head finds the neighbours of its classes after this step.
  [[nodiscard]] bool finds_neighbours_after(std::int64_t step) const;

 private:
  void choose_precision(const SessionOptions& options);
  void start_locally(const SessionOptions& options);
  void connect(const SessionOptions& options);
  void take_output(const SessionOptions& options);
  void warn() const;
  void check_evaluation_sets() const;
  void agree_on_checkpoints();
  void choose_threads(const SessionOptions& options);
  void make_trainer(const SessionOptions& session);
  void measure_nccl();
  std::string convert_foreign_checkpoint();
  void start_untrained();
  void load_weights(SnapshotStore* store);
  /// `step`: of the state from which the job would continue.
  void expect_no_older_state(const SessionOptions& options, std::int64_t step) const;
  [[nodiscard]] bool load_from_memory(SnapshotStore* store, std::int64_t images_on_disk);
  void go_on_after(const TrainedSoFar& trained);
  [[nodiscard]] std::string other_images(const OrderedJob& before) const;
  void make_saving(SnapshotStore* store);
  void make_inputs(const std::function<bool()>& stop_requested);
  [[nodiscard]] CheckpointOptions checkpoint_options();
  [[nodiscard]] TraceTrack thread_row(const char* name);
  [[nodiscard]] BackboneOptions options_of_backbone() const;

  /// The id is the same on all workers, and differs for each start of a job. The names of temporary
  /// folders, the manifests and the lock of the output folder contain it.
  std::string job_id_;
  std::vector<int> threads_;           // compute threads, by rank; 0 on a GPU
  std::vector<std::string> contents_;  // contents of the data sets (FileBrief); rank 0 only
  std::string teacher_;                // teacher_brief() if this worker needs it
};

}  // namespace pfc
