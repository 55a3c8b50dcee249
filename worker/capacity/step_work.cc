#include "worker/capacity/step_work.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/make_ops.h"
#include "kernels/math/row_statistics.h"
#include "model/networks/backbone.h"
#include "worker/distillation/distillation.h"
#include "worker/gradients/optimizer.h"
#include "worker/gradients/weight_average.h"
#include "worker/head/head.h"
#include "worker/head/sampling/class_sampler.h"

namespace pfc {
namespace {

/// Communicates nothing, and counts the calls.
class CountedComm : public Comm {
 public:
  explicit CountedComm(int size) : size_(size) {}
  [[nodiscard]] int calls() const { return calls_; }

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string description() const override { return "a plan"; }
  [[nodiscard]] CommCounters counters() const override { return {}; }
  void all_gather(const Tensor&, const Tensor&) override { ++calls_; }
  void all_reduce_sum(const Tensor&) override { ++calls_; }
  void reduce_scatter_sum(const Tensor&, const Tensor&) override { ++calls_; }
  void all_to_all(const Tensor&, const Tensor&) override { ++calls_; }
  void broadcast(const Tensor&, int) override { ++calls_; }
  void barrier() override { ++calls_; }
  void abort(const std::string&) override {}

 private:
  const int size_;
  int calls_ = 0;
};

double bytes_of_moments(const HeadOptions& o) {
  const auto each = static_cast<double>(size_of(momentum_type(o.centre_precision)));
  if (o.optimizer == OptimizerKind::kAdamW) return 2 * each;
  return o.momentum == 0 ? 0 : each;
}

void count_backbone(const PlannedJob& p, RecordingOps& ops, StepWork& work) {
  CountedComm workers(p.world_size);
  BackboneOptions options = backbone_options(p.job, p.data.height, p.data.width);
  options.sync_bn = p.job.sync_bn && p.world_size > 1 ? &workers : nullptr;
  const std::unique_ptr<Backbone> backbone = make_backbone(ops, options);
  ops.take();
  Tensor batch = batch_of(options);
  const std::unique_ptr<Buffer> images = ops.allocate(batch.bytes());
  batch.data = images->data();
  backbone->read(batch);
  work.images = ops.take();
  backbone->operands_are_current = true;  // as after an optimizer step
  backbone->forward(backbone->input(), /*training=*/true, 0);
  work.forward = ops.take();
  const Shape embeddings{options.batch, options.embedding_size};
  const auto gradient =
      ops.allocate(static_cast<std::size_t>(embeddings.elements()) * sizeof(float));
  backbone->backward({gradient->data(), DType::kFloat32, embeddings},
                     {.accumulate = p.job.gradient_acc > 1}, [](std::int64_t) {});
  work.backward = ops.take();
  Optimizer optimizer(
      ops, {.kind = p.job.optimizer, .momentum = p.job.momentum, .clip_norm = p.job.clip_norm},
      backbone->weights.count, parameter_groups(p.job, backbone->weights));
  std::optional<WeightAverage> average;
  if (p.job.ema_decay > 0) average.emplace(ops, *backbone, p.job.ema_decay);
  ops.take();
  optimizer.step(backbone->gradients(), backbone->weights.flat(),
                 {.operands = backbone->operands()});
  if (average) average->add(1);
  work.optimizer = ops.take();
  work.gradients = static_cast<double>(backbone->gradients().bytes());
  work.synced_norms = workers.calls();
}

void count_teacher(const PlannedJob& p, RecordingOps& ops, StepWork& work) {
  const BackboneOptions options = teacher_options(p);
  const WithActivations teachers(ops, p.teacher_type);
  Distillation distillation(ops, make_backbone(ops, options), p.teacher_type,
                            distillation_options(p.job, p.world_size, options.embedding_size));
  const OwnedTensor images(ops, batch_of(options).shape, DType::kUInt8);
  const OwnedTensor embeddings(ops, {options.batch, options.embedding_size});
  ops.take();
  distillation.compare(images, embeddings);
  if (distillation.compares_embeddings()) {
    distillation.loss_sum();
    distillation.add_gradient(embeddings);
  }
  work.teacher = ops.take();
  if (distillation.compares_logits()) {
    work.teacher_embeddings =
        static_cast<double>(p.world_size * embeddings->elements()) * sizeof(float);
  }
}

}  // namespace

HeadWork head_work(const HeadOptions& o, std::int64_t samples, std::int64_t rows) {
  const auto n = static_cast<double>(samples);
  const auto d = static_cast<double>(o.centre_size());
  const auto shard = static_cast<double>(rows);
  // Rows are drawn with probability sample_rate, in addition to the batch's own classes.
  const double rate = o.sample_rate.largest();
  const double drawn = shard * rate;
  const double own = n * static_cast<double>(o.labels_per_image) * shard /
                     static_cast<double>(std::max<std::int64_t>(1, o.classes));
  const double active = std::min(shard, drawn + own * (1 - rate));
  const double centre = static_cast<double>(size_of(weight_type(o.centre_precision))) * d;
  const double moments = bytes_of_moments(o) * d;
  HeadWork work{.logits = n * active * static_cast<double>(o.sub_centres),
                .drawn = rate < 1 ? static_cast<double>(blocks_of(rows, o.sample_unit)) *
                                        (o.sample_hold > 1 ? 2 : 1)
                                  : 0};
  const double product = 2 * n * active * d;
  const double budget = o.logits_memory * shard * (centre + moments);
  const double kept = work.logits == 0 ? 1 : std::min(1.0, budget / (work.logits * 4));
  work.flops = product * (3 + (1 - kept));
  // Centres are read for the logits, together with the moments if rows have missed updates, and
  // read again for the gradients. Then centres and moments are read and written.
  const double caught_up = rate < 1 ? moments : 0;
  work.bytes = active * (centre + caught_up + centre + 2 * (centre + moments));
  if (o.distillation.on()) {  // in both passes, the teacher's logits and their softmax
    const auto theirs = static_cast<double>(o.distillation.embedding_size);
    work.flops += 2 * 2 * n * active * theirs;
    work.logits += 2 * n * active;
    work.bytes += 2 * active * theirs * (o.bf16_products ? 2 : 4);
  }
  return work;
}

/// Returns the mean over the epochs of the job.
HeadWork mean_head_work(const PlannedJob& p, std::int64_t samples, std::int64_t rows) {
  const JobConfig& job = p.job;
  HeadOptions options = planned_head(p);
  const std::vector<SampleRate::From>& parts = job.sample_rate.parts();
  HeadWork mean;
  for (std::size_t i = 0; i < parts.size() && parts[i].epoch < job.num_epoch; ++i) {
    const double end =
        i + 1 < parts.size() ? std::min(parts[i + 1].epoch, job.num_epoch) : job.num_epoch;
    const double share = (end - parts[i].epoch) / job.num_epoch;
    options.sample_rate = parts[i].rate;
    const HeadWork work = head_work(options, samples, rows);
    mean.flops += share * work.flops;
    mean.logits += share * work.logits;
    mean.bytes += share * work.bytes;
    mean.drawn += share * work.drawn;
  }
  return mean;
}

StepWork count_step(const PlannedJob& p) {
  StepWork work{.micro_batches = p.job.gradient_acc};
  RecordingOps ops(activation_type(p.job.precision));
  count_backbone(p, ops, work);
  if (p.teacher) count_teacher(p, ops, work);
  const std::int64_t samples = p.job.batch_size * p.world_size;
  const ClassPositions positions = planned_head(p).positions();
  work.head = mean_head_work(p, samples, positions.shard(0, p.world_size).size());
  const auto numbers = static_cast<double>(samples * p.job.embedding_size);
  const bool bf16 = p.job.exchange_precision == Precision::kBf16;
  work.embeddings = numbers * (bf16 ? 2 : 4);
  work.d_embeddings = numbers * (bf16 && !p.gpu ? 2 : 4);  // as EmbeddingExchange
  work.statistics = static_cast<double>(samples) * sizeof(RowStatistics);
  return work;
}

}  // namespace pfc
