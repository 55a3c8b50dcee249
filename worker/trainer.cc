#include "worker/trainer.h"

#include <nlohmann/json.hpp>

#include "worker/gradients/make_grad_reducer.h"
#include "worker/gradients/parameter_groups.h"
#include "worker/head/row_copy.h"

namespace pfc {

Trainer::Trainer(Ops& device, const WorkerComms& comms, PhaseTimer& timer, const JobConfig& job,
                 const nlohmann::json& job_json, const BackboneOptions& options,
                 const HeadOptions& of_head)
    : ops(device),
      comm(*comms.step),
      phase(timer),
      gradient_acc(job.gradient_acc),
      backbone(make_backbone(ops, options)),
      statistics(ops, *backbone, job.gradient_acc > 1),
      head(make_head(ops, comm, of_head)),
      optimizer(ops, {.kind = job.optimizer, .momentum = job.momentum, .clip_norm = job.clip_norm},
                backbone->weights.count, parameter_groups(job, backbone->weights)),
      loss_scale(ops.activation_type() == DType::kFloat16 ? LossScale::dynamic()
                                                          : LossScale::none()),
      reducer(make_grad_reducer(ops, *comms.gradients, backbone->gradients())),
      exchange(ops, comm, job),
      all_embeddings(ops, StepShapes(job, comm.size()).all_embeddings),
      d_embeddings(ops, StepShapes(job, comm.size()).d_embeddings),
      dump(ops, comms.host(), *head, job.output, job_json),
      sampler(job.tensorboard ? job.histograms_every_steps : 0, comm.rank() == 0) {
  if (job.ema_decay > 0) average.emplace(ops, *backbone, job.ema_decay);
}

StepSample Trainer::sample(Comm& host_comm) {
  const std::int64_t n = all_embeddings->shape[0] / gradient_acc;
  const Tensor last = row_range(all_embeddings, (gradient_acc - 1) * n, n);
  return sampler.take({.ops = ops, .head = *head, .comm = host_comm, .embeddings = last});
}

}  // namespace pfc
