#include "worker/train_step.h"

#include <cmath>
#include <utility>

namespace pfc {
namespace {

Head::Step head_step(const Trainer& t, const StepInput& in, std::int64_t micro) {
  return {.all_embeddings = t.all_embeddings,
          .all_labels = in.all_labels,
          .active = in.active,
          .lr = t.lr.at(in.step),
          .update = in.step,
          .micro_batch = micro,
          .gradient_scale = 1.0 / static_cast<double>(t.gradient_acc)};
}

void add_input(const StepInput& in, StepStats& stats) {
  stats.step = in.step;
  stats.epoch = in.batch->epoch;
  stats.samples += static_cast<std::int64_t>(in.all_labels.size());
  stats.data_wait_seconds += in.wait_seconds;
  stats.skipped_images = in.batch->skipped_images;
  stats.signals = in.signals;
}

/// Leaves the state as it was after the step before: nothing is updated before the last
/// micro-batch, but each one has moved the running statistics. All workers see a stop at the same
/// micro-batch, so all do this or none.
StepStats give_up(Trainer& t, StepInput& in) {
  t.statistics.restore();
  StepStats stats{.step = in.step, .complete = false, .signals = in.signals};
  t.inputs.recycle(in);
  return stats;
}

/// Ends training by throwing. All workers have the same loss and the same reduced gradients, so all
/// stop at the same place.
void stop(Trainer& t, const Head::Step& step, const StepDump::Verdict& verdict) {
  t.phase("dump", [&] { t.dump.stop(step, verdict); });
}

}  // namespace

// Shapes stand at the right margin.
// clang-format off
StepStats train_step(Trainer& t) {
  StepStats stats;
  const double scale = 1.0 / static_cast<double>(t.gradient_acc);
  StepInput in;
  t.statistics.keep();

  for (std::int64_t micro = 0; micro < t.gradient_acc; ++micro) {
    in = t.phase("data_wait", [&] { return t.inputs.next(); });
    check(in.batch != nullptr, "train_step: the data ended before the last step");
    const bool last = micro + 1 == t.gradient_acc;
    if (in.signals.stop && !last) return give_up(t, in);
    t.phase("images", [&] {
      t.ops.normalise_images(in.images, t.backbone.input());                  // [B, H, W, 3]
    });

    const Tensor emb = t.phase("forward", [&] {
      return t.backbone.forward(t.backbone.input(), /*training=*/true,
                                in.batch->index);                             // [B, D]
    });
    t.phase("all_gather", [&] {
      t.comm.all_gather(emb, t.all_embeddings);                               // [N, D]  comm 1
    });
    const HeadResult head = t.phase("head", [&] {
      return t.head.run(head_step(t, in, micro));          // [N, D], [N], [S, D]; statistics: comm 2
    });
    t.comm.throw_if_failed();  // the loss is only true if no collective has failed
    if (!std::isfinite(head.loss)) {
      stop(t, head_step(t, in, micro), {.not_finite = "the loss", .loss = head.loss});
    }
    t.phase("reduce_scatter", [&] {
      t.comm.reduce_scatter_sum(head.d_embeddings, t.d_embeddings);           // [B, D]  comm 3
    });
    t.phase("backward", [&] {
      const auto loss_scale = static_cast<float>(t.loss_scale.value());
      t.backbone.backward(t.d_embeddings, {.accumulate = micro > 0, .gradient_scale = loss_scale},
                          [&](std::int64_t offset) {
                            if (last) t.reducer.ready(offset);  // overlaps the rest of the pass
                          });
    });

    stats.loss += head.loss * scale;
    add_input(in, stats);
    t.inputs.recycle(in);
  }

  t.phase("gradient_wait", [&] { t.reducer.wait(); });
  stats.reduce_seconds = t.reducer.timeline().busy_seconds();
  stats.reduce_overlapped_seconds = t.reducer.timeline().overlapped_seconds();
  const Optimizer::Result update = t.phase("optimizer", [&] {
    return t.optimizer.step(
        t.backbone.gradients(), t.backbone.weights.flat(),
        {.lr = t.lr.at(in.step), .number = in.step, .loss_scale = t.loss_scale.value()});
  });
  t.comm.throw_if_failed();  // so is the norm; on a GPU this covers the gradients' Comm too
  if (!update.finite && !t.loss_scale.can_shrink()) {
    stop(t, head_step(t, in, t.gradient_acc - 1),
         {.not_finite = "the gradient of the backbone", .loss = stats.loss, .rows_moved = true,
          .d_embeddings = t.d_embeddings});
  }
  stats.lr = t.lr.at(in.step);
  stats.gradient_norm = update.gradient_norm;
  stats.loss_scale = t.loss_scale.value();
  t.loss_scale.update(update.finite);  // where it is not, no worker has changed its backbone
  return stats;
}
// clang-format on

}  // namespace pfc
