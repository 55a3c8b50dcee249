#include "worker/check/step_speed.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>

#include "worker/capacity/step_work.h"
#include "worker/capacity/timed_step.h"
#include "worker/head/head.h"

namespace pfc {
namespace {

constexpr std::int64_t kImages = 4, kImagesOfGpu = 32;  // images per worker
constexpr std::int64_t kSpeedCheckRows = 20'000;        // rows of a worker's shard

}  // namespace

ComputeSeconds time_compute(Ops& ops, Comm& step_comm, const PlannedJob& planned) {
  const auto micro = static_cast<double>(planned.job.gradient_acc);
  const std::int64_t workers = planned.world_size, samples = planned.job.batch_size * workers;
  PlannedJob few = planned;  // first with few images, then with few classes
  few.job.batch_size = std::min(few.job.batch_size, ops.on_host() ? kImages : kImagesOfGpu);
  step_comm.barrier();
  const BackboneSeconds backbone = time_backbone(ops, few, 1);
  const double times =
      micro * static_cast<double>(planned.job.batch_size) / static_cast<double>(few.job.batch_size);
  ComputeSeconds seconds{.forward = times * (backbone.forward + time_teacher(ops, few, 1)),
                         .backward = times * backbone.backward};
  few = planned;
  few.job.heads = Heads::kOne;  // separate heads would need the number of classes of each
  few.job.num_classes = std::min(few.job.num_classes, kSpeedCheckRows * workers);
  const auto flops = [&](const PlannedJob& p) {
    return head_work(planned_head(p), samples, (p.job.num_classes + workers - 1) / workers).flops;
  };
  seconds.head =
      micro * time_head(ops, step_comm, few, 1) * flops(planned) / std::max(flops(few), 1.0);
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
          .found = fmt::format("about {:.3g} samples/s, {:.3g} steps/s: {:.0f} ms a step, of which "
                               "backbone {:.0f}, classification layer {:.0f}, collectives {:.0f}",
                               samples / step, 1 / step, step * 1e3, backbone * 1e3,
                               compute.head * 1e3, communication * 1e3),
          .expected = {},
          .value = samples / step,
          .unit = "samples/s",
          .of_host = false};
}

}  // namespace pfc
