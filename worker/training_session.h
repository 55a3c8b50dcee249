// Everything that one worker needs for one generation of one job, built in order and owned.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/ids.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_schedule.h"
#include "worker/comm/key_value_store.h"
#include "worker/data/dataset.h"
#include "worker/data/prefetcher.h"
#include "worker/evaluation/evaluation.h"
#include "worker/memory/memory_plan.h"
#include "worker/schedule/step_plan.h"
#include "worker/train_step.h"

namespace pfc {

struct SessionOptions {
  Membership membership;
  KeyValueStore* store = nullptr;  ///< null: a worker alone
  std::string peer_address;        ///< this host as its peers see it
  std::chrono::milliseconds connect_timeout{60'000};
  std::chrono::milliseconds collective_timeout{300'000};
  std::function<bool()> stop_requested;  ///< thread-safe
};

/// Members are in the order in which they depend on each other.
struct TrainingSession {
  TrainingSession(const JobConfig& job, const SessionOptions& options);

  JobConfig job;  ///< num_classes and num_image filled in from the data
  nlohmann::json job_json;
  Membership membership;
  std::unique_ptr<Ops> ops;
  std::uint64_t host_bytes = 0;         ///< of memory for this worker, as it started
  MemoryPlan memory;                    ///< of this worker
  std::unique_ptr<Comm> step_comm;      ///< the step's three collectives; the device's memory
  std::unique_ptr<Comm> gradient_comm;  ///< the reducer's; the device's memory
  std::unique_ptr<Comm> input_comm;     ///< the inputs' thread's; host memory
  std::unique_ptr<Comm> gpu_host_comm;  ///< on a GPU: what host_comm() gives
  std::unique_ptr<Dataset> dataset;
  std::vector<VerificationSet> verification_sets;
  StepPlan plan;
  std::int64_t first_step = 1;
  std::int64_t resumed_images = 0;  ///< seen by the checkpoint that this goes on from; 0: none
  std::unique_ptr<Backbone> backbone;
  std::unique_ptr<Head> head;
  std::unique_ptr<Optimizer> optimizer;
  LossScale loss_scale = LossScale::none();
  std::unique_ptr<LrScheduler> lr;
  std::unique_ptr<Buffer> images_u8, images, all_embeddings, d_embeddings;
  std::unique_ptr<GradReducer> reducer;
  std::unique_ptr<CheckpointWriter> writer;
  std::unique_ptr<CheckpointSchedule> checkpoints;
  std::unique_ptr<Prefetcher> prefetcher;
  std::unique_ptr<ImageUpload> upload;
  std::unique_ptr<StepInputs> inputs;
  std::unique_ptr<StepDump> dump;
  PhaseTimer phase;
  std::string start_message;  ///< where the weights came from, for the log

  /// Between steps: barriers, and host memory.
  [[nodiscard]] Comm& host_comm() { return gpu_host_comm ? *gpu_host_comm : *step_comm; }
  [[nodiscard]] Trainer trainer();
  [[nodiscard]] TrainingState state();

 private:
  void connect(const SessionOptions& options);
  void open_data();
  [[nodiscard]] PlannedJob planned() const;
  void agree_on_checkpoints();
  void make_model();
  void load_weights();
  void make_inputs(const std::function<bool()>& stop_requested);
  [[nodiscard]] Tensor batch_tensor(Buffer& buffer, DType dtype) const;
};

}  // namespace pfc
