// Builds and owns everything that one worker needs for one generation of a job.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/abort_switch.h"
#include "comm/key_value_store.h"
#include "common/config/config.h"
#include "common/ids.h"
#include "common/trace/recorder.h"
#include "data/dataset.h"
#include "data/prefetcher.h"
#include "kernels/owned_tensor.h"
#include "model/evaluation/evaluation.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_schedule.h"
#include "worker/checkpoint/output_links.h"
#include "worker/checkpoint/output_lock.h"
#include "worker/memory/memory_plan.h"
#include "worker/report/training_log.h"
#include "worker/schedule/step_plan.h"
#include "worker/snapshot/snapshot_maker.h"
#include "worker/start/resume.h"
#include "worker/train_step.h"

namespace pfc {

struct SessionOptions {
  std::string job_id;  ///< from the coordinator; empty: drawn at random
  Membership membership;
  /// Used by workers to find each other. Borrowed; null: one worker.
  KeyValueStore* store = nullptr;
  std::string peer_address;  ///< this host's address, as its peers see it
  std::string host;          ///< this host's name, for messages; empty: the machine's own
  std::chrono::milliseconds connect_timeout{60'000};
  std::chrono::milliseconds collective_timeout{300'000};
  /// Returns whether to end training after a checkpoint. REQUIRES: it is thread-safe.
  std::function<bool()> stop_requested;
  /// The step of the job's newest checkpoint; 0: none. Training does not start at a lower step.
  /// checkpoint_host has it in its own output folder; if empty, all hosts share the folder.
  std::int64_t checkpoint_step = 0;
  std::string checkpoint_host;
  /// Number of workers that trained the job's first step; 0: no step was trained. A job that
  /// restarts at step 1 keeps their plan.
  int planned_workers = 0;
  AbortSwitch* abort_switch = nullptr;  ///< ends waits for other workers. Borrowed, or null
  /// Keeps this worker's snapshots from one generation to the next if the job has `replicate`.
  /// Borrowed; null: no snapshots are taken.
  SnapshotStore* snapshots = nullptr;
  Doing doing = {};  ///< called with the current activity before the first step
};

/// Returns the name of this worker's host for messages.
std::string host_of(const SessionOptions& options);

/// Members are declared in the order of construction; each uses only earlier ones.
struct TrainingSession {
  /// Opens the data, checks the job and decodes the verification sets, reserves memory, connects
  /// to the other workers, takes the output folder, and loads the newest checkpoint or the job's
  /// initial weights. Throws InputError, CommError, DeviceError.
  TrainingSession(const JobConfig& job, const SessionOptions& options);

  TraceRecorder trace;  ///< records the activity of all other members
  JobConfig job;        ///< with num_classes and num_image of the data, and without auto precision
  nlohmann::json job_json;
  Membership membership;
  /// The same on all workers; differs for each start of a job. Part of the names of temporary
  /// folders, of manifests and of the lock of the output folder.
  std::string job_id;
  std::unique_ptr<Ops> ops;
  std::uint64_t host_bytes = 0;         ///< host memory available to this worker at the start
  std::uint64_t nccl_bytes = 0;         ///< GPU memory taken while NCCL connected
  MemoryPlan memory;                    ///< plan of this worker
  std::unique_ptr<Comm> step_comm;      ///< for the training thread; tensors on the device
  std::unique_ptr<Comm> gradient_comm;  ///< for the GradReducer; tensors on the device
  std::unique_ptr<Comm> input_comm;     ///< for the thread of StepInputs; tensors in host memory
  std::unique_ptr<Comm> gpu_host_comm;  ///< returned by host_comm() on a GPU; null on a CPU
  /// For the thread of the SnapshotMaker; tensors in host memory. Null without snapshots.
  std::unique_ptr<Comm> snapshot_comm;
  std::vector<int> threads;        ///< compute threads, by rank; 0 on a GPU
  std::vector<std::string> data;   ///< content of the data sets (FileBrief); rank 0 only
  std::vector<std::string> hosts;  ///< by rank, for messages; empty: the job has one host
  OutputLinks output_links;        ///< its Comms are used by the checkpoint writer
  std::list<AbortSwitch::Guard> abort_guards;  ///< of the Comms above
  std::unique_ptr<OutputLock> output_lock;     ///< held by rank 0; null on other workers
  std::unique_ptr<Dataset> dataset;
  EvaluationSets evaluation_sets;
  StepPlan plan;
  bool loaded_from_disk = false;  ///< plan.start comes from a checkpoint in the output folder
  std::unique_ptr<Backbone> backbone;
  std::unique_ptr<StatisticsBackup> statistics;
  std::unique_ptr<Head> head;
  std::unique_ptr<Optimizer> optimizer;
  LossScale loss_scale = LossScale::none();
  std::unique_ptr<LrScheduler> lr;
  /// [B, H, W, 3] uint8, for images embedded outside of training steps.
  OwnedTensor evaluated_images;
  OwnedTensor all_embeddings;  ///< for a whole step (StepShapes)
  OwnedTensor d_embeddings;    ///< for a whole step (StepShapes)
  std::unique_ptr<GradReducer> reducer;
  std::unique_ptr<StepDump> dump;
  StepSampler sampler;
  std::unique_ptr<CheckpointWriter> writer;
  std::unique_ptr<CheckpointSchedule> checkpoints;
  std::unique_ptr<SnapshotMaker> snapshots;  ///< null without snapshots
  std::unique_ptr<Prefetcher> prefetcher;
  std::unique_ptr<StepInputs> inputs;
  PhaseTimer phase{trace.track(TraceRow::kPhases, "training")};
  std::string start_message;  ///< says where the weights came from, for the log
  /// Makes all workers stop after a checkpoint. Set by a worker that cannot continue.
  std::atomic<bool> end_early = false;

  /// For tensors in host memory, and barriers between steps. Belongs to the training thread.
  [[nodiscard]] Comm& host_comm() { return gpu_host_comm ? *gpu_host_comm : *step_comm; }
  [[nodiscard]] Communicated communicated() const;
  [[nodiscard]] Trainer trainer();
  /// Samples a complete step that the sampler selects. Collective.
  [[nodiscard]] StepSample sample();
  [[nodiscard]] TrainingState state();
  [[nodiscard]] PlannedJob planned() const;

 private:
  void decide_precision(const SessionOptions& options);
  void connect(const SessionOptions& options);
  void take_output(const SessionOptions& options);
  void compare_hosts_of_job(const SessionOptions& options);
  void link_output(const SessionOptions& options);
  /// `staged`: paths to open instead of job.rec.
  void open_data(std::vector<std::filesystem::path> staged, const Doing& doing);
  void warn() const;
  void check_evaluation_sets(const Doing& doing) const;
  void agree_on_checkpoints();
  void decide_threads(const SessionOptions& options);
  void make_model();
  void measure_nccl();
  std::string convert_foreign_checkpoint();
  void start_untrained(const Doing& doing);
  void load_weights(SnapshotStore* store, const Doing& doing);
  void expect_no_older_state(const SessionOptions& options) const;
  [[nodiscard]] bool load_from_memory(SnapshotStore* store, std::int64_t images_on_disk);
  void go_on_after(const TrainedSoFar& trained);
  [[nodiscard]] std::string other_images(const OrderedJob& before) const;
  void make_inputs(const std::function<bool()>& stop_requested);
  void make_snapshots(SnapshotStore* store);
  [[nodiscard]] CheckpointOptions checkpoint_options();
  [[nodiscard]] TraceTrack thread_row(const char* name);
  [[nodiscard]] Tensor batch() const;  ///< type and shape of the backbone's input
};

}  // namespace pfc
