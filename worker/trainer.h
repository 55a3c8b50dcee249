// The model in training: network, classification layer and optimizer, with the buffers of a step.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "comm/comm.h"
#include "common/config/config.h"
#include "kernels/owned_tensor.h"
#include "model/networks/backbone.h"
#include "model/networks/statistics_backup.h"
#include "worker/distillation/distillation.h"
#include "worker/embedding_exchange.h"
#include "worker/gradients/grad_reducer.h"
#include "worker/gradients/loss_scale.h"
#include "worker/gradients/optimizer.h"
#include "worker/gradients/weight_average.h"
#include "worker/head/head.h"
#include "worker/memory/step_shapes.h"
#include "worker/report/phase_timer.h"
#include "worker/report/step_dump.h"
#include "worker/schedule/lr_schedule.h"
#include "worker/start/worker_comms.h"
#include "worker/tensorboard/step_sampler.h"

namespace pfc {

/// Everything that a step uses, except its inputs. Belongs to the training thread.
struct Trainer {
  /// Makes an untrained model. Borrows `device`, `comms` and `timer`. `options`: of the backbone,
  /// with the size of the data's images. `of_head`: of the head. Throws InputError,
  /// DeviceError, and as make_head() does.
  Trainer(Ops& device, const WorkerComms& comms, PhaseTimer& timer, const JobConfig& job,
          const nlohmann::json& job_json, const BackboneOptions& options,
          const HeadOptions& of_head);
  /// Samples a complete step that StepSampler::wants() selects. Collective.
  [[nodiscard]] StepSample sample(Comm& host_comm);

  Ops& ops;
  Comm& comm;  ///< for embeddings, row statistics and the embeddings' gradients
  PhaseTimer& phase;
  const std::int64_t gradient_acc;
  std::unique_ptr<Backbone> backbone;
  StatisticsBackup statistics;
  std::unique_ptr<Head> head;
  Optimizer optimizer;
  std::optional<WeightAverage> average;  ///< set if the job has ema_decay
  LossScale loss_scale;
  std::unique_ptr<GradReducer> reducer;
  EmbeddingExchange exchange;
  OwnedTensor all_embeddings;  ///< [M * N, D]: M micro-batches of all workers (StepShapes)
  OwnedTensor d_embeddings;    ///< [M * B, D]: this worker's gradients
  StepDump dump;
  StepSampler sampler;
  std::optional<Distillation> distillation;  ///< set before the first step, if there is a teacher
  std::optional<LrScheduler> lr;             ///< set before the first step
};

}  // namespace pfc
