#include "worker/check/step_speed.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "kernels/owned_tensor.h"
#include "worker/cost/step_work.h"
#include "worker/head/head.h"

namespace pfc {
namespace {

constexpr std::int64_t kImages = 4, kImagesOfGpu = 32;  // per worker
constexpr std::int64_t kSpeedCheckRows = 20'000;        // of a worker's shard

/// Times the second of two passes, because the first one generates code and allocates memory.
void time_backbone(Ops& ops, const PlannedJob& p, ComputeSeconds& seconds) {
  BackboneOptions options = backbone_options(p.job, p.data.height, p.data.width);
  options.batch = std::min(options.batch, ops.on_host() ? kImages : kImagesOfGpu);
  const std::unique_ptr<Backbone> backbone = make_backbone(ops, options);
  const OwnedTensor gradient(ops, {options.batch, options.embedding_size});
  ops.fill(gradient, 1e-3F);
  TimePoint start, middle;
  for (int pass = 0; pass < 2; ++pass) {
    ops.synchronize();
    start = Clock::now();
    backbone->forward(backbone->input(), /*training=*/true, pass);
    ops.synchronize();
    middle = Clock::now();
    backbone->backward(gradient, {}, [](std::int64_t) {});
    ops.synchronize();
  }
  const double times = static_cast<double>(p.job.batch_size * p.job.gradient_acc) /
                       static_cast<double>(options.batch);
  seconds.forward = times * seconds_since(start, middle);
  seconds.backward = times * seconds_since(middle);
}

void time_head(Ops& ops, Comm& comm, const PlannedJob& p, ComputeSeconds& seconds) {
  const std::int64_t workers = p.world_size, samples = p.job.batch_size * workers;
  HeadOptions options = head_options(p.job);
  options.gradient_acc = 1;
  options.moves_later = false;
  const HeadWork whole = head_work(options, samples, (options.classes + workers - 1) / workers);
  options.classes = std::min(options.classes, kSpeedCheckRows * workers);
  const HeadWork piece = head_work(options, samples, (options.classes + workers - 1) / workers);
  const std::unique_ptr<Head> head = make_head(ops, comm, options);
  const OwnedTensor embeddings(ops, {samples, options.embedding_size});
  ops.fill(embeddings, 1e-2F);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int64_t>(i) * 7919 % options.classes;
  }
  TimePoint start;
  for (std::int64_t step = 1; step <= 3; ++step) {
    const ActiveCentres active = head->sample(labels, step);
    comm.barrier();
    start = Clock::now();
    head->run({.all_embeddings = embeddings,
               .all_labels = labels,
               .active = active,
               .lr = 1e-3,
               .update = step});
    ops.synchronize();
  }
  seconds.head = seconds_since(start) * whole.flops / std::max(piece.flops, 1.0) *
                 static_cast<double>(p.job.gradient_acc);
}

}  // namespace

ComputeSeconds time_compute(Ops& ops, Comm& step_comm, const PlannedJob& planned) {
  ComputeSeconds seconds;
  step_comm.barrier();
  time_backbone(ops, planned, seconds);
  time_head(ops, step_comm, planned, seconds);
  return seconds;
}

CheckFinding speed_to_expect(const ComputeSeconds& compute, const CollectiveSeconds& collectives,
                             const PlannedJob& planned, bool beside) {
  const double micro = static_cast<double>(planned.job.gradient_acc);
  const double reduce =
      std::max(0.0, collectives.gradients - (beside ? compute.backward / micro : 0));
  const double communication = micro * collectives.embeddings + reduce;
  const double backbone = compute.forward + compute.backward;
  const double step = backbone + compute.head + communication;
  const auto samples =
      static_cast<double>(planned.job.batch_size * planned.world_size * planned.job.gradient_acc);
  return {.what = "speed to expect",
          .found = fmt::format("about {:.3g} samples/s, {:.3g} steps/s: {:.0f} ms a step, of them "
                               "backbone {:.0f}, classification layer {:.0f}, collectives {:.0f}",
                               samples / step, 1 / step, step * 1e3, backbone * 1e3,
                               compute.head * 1e3, communication * 1e3),
          .expected = {},
          .value = samples / step,
          .unit = "samples/s",
          .of_host = false};
}

}  // namespace pfc
