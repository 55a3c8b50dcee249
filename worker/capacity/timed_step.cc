#include "worker/capacity/timed_step.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "common/clock.h"
#include "common/median.h"
#include "kernels/owned_tensor.h"
#include "model/networks/backbone.h"
#include "worker/head/head.h"

namespace pfc {
namespace {

// The first pass generates code and allocates memory; the second one records CUDA graphs.
constexpr int kUntimed = 2;

}  // namespace

BackboneSeconds time_backbone(Ops& ops, const PlannedJob& p, int passes) {
  const BackboneOptions options = backbone_options(p.job, p.data.height, p.data.width);
  const std::unique_ptr<Backbone> backbone = make_backbone(ops, options);
  const OwnedTensor gradient(ops, {options.batch, options.embedding_size});
  ops.fill(gradient, 1e-3F);
  std::vector<double> forward, backward;
  for (int pass = 0; pass < passes + kUntimed; ++pass) {
    ops.synchronize();
    const TimePoint start = Clock::now();
    backbone->forward(backbone->input(), /*training=*/true, pass);
    ops.synchronize();
    const TimePoint middle = Clock::now();
    backbone->backward(gradient, {}, [](std::int64_t) {});
    ops.synchronize();
    if (pass < kUntimed) continue;
    forward.push_back(seconds_since(start, middle));
    backward.push_back(seconds_since(middle));
  }
  return {.forward = median_of(forward), .backward = median_of(backward)};
}

double time_teacher(Ops& ops, const PlannedJob& p, int passes) {
  if (!p.teacher) return 0;
  const WithActivations teachers(ops, p.teacher_type);
  const std::unique_ptr<Backbone> teacher = make_backbone(ops, teacher_options(p));
  std::vector<double> seconds;
  for (int pass = 0; pass < passes + kUntimed; ++pass) {
    ops.synchronize();
    const TimePoint start = Clock::now();
    teacher->forward(teacher->input(), /*training=*/false, 0);
    ops.synchronize();
    if (pass >= kUntimed) seconds.push_back(seconds_since(start));
  }
  return median_of(seconds);
}

double time_head(Ops& ops, Comm& comm, const PlannedJob& p, int passes) {
  const std::int64_t samples = p.job.batch_size * p.world_size;
  HeadOptions options = planned_head(p);
  options.gradient_acc = 1;
  options.moves_later = false;
  options.centre_file = {};
  const std::unique_ptr<Head> head = make_head(ops, comm, options);
  const OwnedTensor embeddings(ops, {samples, options.embedding_size});
  ops.fill(embeddings, 1e-2F);
  const OwnedTensor theirs(ops, {samples, options.distillation.embedding_size});
  std::vector<std::int64_t> labels(static_cast<std::size_t>(samples * options.labels_per_image));
  std::vector<double> seconds;
  for (std::int64_t step = 1; step <= passes + kUntimed; ++step) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::int64_t sample = static_cast<std::int64_t>(i) / options.labels_per_image;
      labels[i] = (sample * 7919 + step * 104729 +
                   static_cast<std::int64_t>(i) % options.labels_per_image) %
                  options.classes;
    }
    const ActiveCentres active = head->sample(labels, step);
    comm.barrier();
    const TimePoint start = Clock::now();
    head->run({.all_embeddings = embeddings,
               .all_labels = labels,
               .active = active,
               .lr = 1e-3,
               .update = step,
               .teacher_embeddings = theirs});
    ops.synchronize();
    if (step > kUntimed) seconds.push_back(seconds_since(start));
  }
  return median_of(seconds);
}

}  // namespace pfc
