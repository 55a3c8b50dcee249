#include "worker/train_step.h"

#include <cmath>
#include <string>
#include <utility>

namespace pfc {
namespace {

// All workers hold the same loss and the same reduced gradients, so all of them stop here together.
void expect_finite(bool finite, const char* what, std::int64_t step, double lr) {
  if (finite) return;
  throw InputError(std::string(what) + " is not finite at step " + std::to_string(step) +
                   " (learning rate " + std::to_string(lr) +
                   "): lower lr, lengthen warmup_epoch or lower clip_norm, and resume from the "
                   "last checkpoint");
}

}  // namespace

// Shapes stand at the right margin.
// clang-format off
StepStats train_step(Trainer& t, std::int64_t step) {
  StepStats stats{.lr = t.lr.at(step)};
  const double scale = 1.0 / static_cast<double>(t.gradient_acc);
  const std::int64_t first = (step - 1) * t.gradient_acc;  // micro-batch: keys the dropout mask

  for (std::int64_t micro = 0; micro < t.gradient_acc; ++micro) {
    StepInput in = t.phase("data_wait", [&] { return t.inputs.next(); });
    check(in.batch != nullptr, "train_step: the data ended before the last step");
    t.phase("images", [&] {
      t.ops.copy_to_device(t.images_u8, in.batch->images.data());
      t.ops.normalise_images(t.images_u8, t.images);                          // [B, H, W, 3]
    });

    const Tensor emb = t.phase("forward", [&] {
      return t.backbone.forward(t.images, /*training=*/true, first + micro);   // [B, D]
    });
    t.phase("all_gather", [&] {
      t.comm.all_gather(emb, t.all_embeddings);                               // [N, D]  comm 1
    });
    const HeadResult head = t.phase("head", [&] {
      return t.head.run({.all_embeddings = t.all_embeddings,
                         .all_labels = in.all_labels,                         // [N]
                         .active = in.active,                                 // [S, D]
                         .lr = stats.lr,
                         .update = step,
                         .micro_batch = micro,
                         .gradient_scale = scale});                           // statistics: comm 2
    });
    expect_finite(std::isfinite(head.loss), "the loss", step, stats.lr);
    t.phase("reduce_scatter", [&] {
      t.comm.reduce_scatter_sum(head.d_embeddings, t.d_embeddings);           // [B, D]  comm 3
    });
    const bool last = micro + 1 == t.gradient_acc;
    t.phase("backward", [&] {
      t.backbone.backward(t.d_embeddings, /*accumulate=*/micro > 0, [&](std::int64_t offset) {
        if (last) t.reducer.ready(offset);  // the all-reduce overlaps the rest of the pass
      });
    });

    stats.loss += head.loss * scale;
    stats.data_wait_seconds += in.wait_seconds;
    stats.samples += static_cast<std::int64_t>(in.all_labels.size());
    stats.epoch = in.batch->epoch;
    stats.skipped_images = in.batch->skipped_images;
    stats.signals = in.signals;
    t.inputs.recycle(std::move(in.batch));
  }

  t.phase("gradient_wait", [&] { t.reducer.wait(); });
  stats.reduce_seconds = t.reducer.timeline().busy_seconds();
  stats.reduce_overlapped_seconds = t.reducer.timeline().overlapped_seconds();
  const Optimizer::Result update = t.phase("optimizer", [&] {
    return t.optimizer.step(t.backbone.gradients(), t.backbone.weights.flat(), stats.lr, step);
  });
  expect_finite(update.finite, "the gradient of the backbone", step, stats.lr);
  stats.gradient_norm = update.gradient_norm;
  return stats;
}
// clang-format on

}  // namespace pfc
