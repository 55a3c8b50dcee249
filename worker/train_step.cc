#include "worker/train_step.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "worker/head/row_copy.h"

namespace pfc {
namespace {

/// Returns the rows of one micro-batch in a tensor that holds those of all micro-batches.
Tensor rows_of(const Trainer& t, const Tensor& all, std::int64_t micro) {
  const std::int64_t rows = all.shape[0] / t.gradient_acc;
  return row_range(all, micro * rows, rows);
}

/// Returns N, the number of samples of a micro-batch.
std::int64_t samples_of(const Trainer& t) { return t.all_embeddings->shape[0] / t.gradient_acc; }

bool is_last(const Trainer& t, std::int64_t micro) { return micro + 1 == t.gradient_acc; }

bool compares_embeddings(const Trainer& t) {
  return t.distillation && t.distillation->compares_embeddings();
}

double share_of_micro_batch(const Trainer& t) { return 1.0 / static_cast<double>(t.gradient_acc); }

/// Returns the number of the update that this step makes, from 1.
std::int64_t update_number(const Trainer& t) { return t.loss_scale.updates() + 1; }

Head::Step head_step(const Trainer& t, const StepInput& in, std::int64_t micro,
                     const Tensor& teacher_embeddings = {}) {
  return {.all_embeddings = rows_of(t, t.all_embeddings, micro),
          .all_labels = in.all_labels,
          .active = in.active,
          .lr = t.lr->at(in.step),
          .update = update_number(t),
          .micro_batch = micro,
          .gradient_scale = share_of_micro_batch(t),
          .teacher_embeddings = teacher_embeddings};
}

/// A step that is in progress.
struct StepSoFar {
  StepInput in;     ///< input of the newest micro-batch
  HeadResult head;  ///< result of the newest micro-batch
  /// Labels of all micro-batches so far; at the end [M * N, labels_per_image].
  std::vector<std::int64_t> labels;
  double distillation_loss = 0;  ///< sum over this worker's samples so far
  StepStats stats;
};

void add_input(const Trainer& t, StepSoFar& so_far) {
  const StepInput& in = so_far.in;
  StepStats& stats = so_far.stats;
  so_far.labels.insert(so_far.labels.end(), in.all_labels.begin(), in.all_labels.end());
  stats.step = in.step;
  stats.epoch = in.batch->epoch;
  stats.samples += samples_of(t);
  stats.data_wait_seconds += in.wait_seconds;
  stats.own_data_wait_seconds += std::min(in.wait_seconds, in.batch->wait_seconds);
  stats.loader_seconds += in.batch->fill_seconds;
  stats.skipped_images = in.batch->skipped_images;
  stats.signals = in.signals;
}

void add_update(Trainer& t, const Optimizer::Result& update, StepStats& stats) {
  stats.reduce_seconds = t.reducer->timeline().busy_seconds();
  stats.reduce_overlapped_seconds = t.reducer->timeline().overlapped_seconds();
  stats.lr = t.lr->at(stats.step);
  stats.gradient_norm = update.gradient_norm;
  stats.loss_scale = t.loss_scale.value();
}

/// Restores the state after the previous step. Before the last micro-batch, a step changes only the
/// running statistics, with each micro-batch. All workers see a stop at the same micro-batch, so
/// all of them call this function, or none does.
StepStats give_up(Trainer& t, StepInputs& inputs, StepInput& in) {
  t.statistics.restore();
  StepStats stats{.step = in.step, .complete = false, .signals = in.signals};
  inputs.recycle(in);
  return stats;
}

/// Returns the next input. If the data have failed, restores the previous state and throws.
StepInput next_input(Trainer& t, StepInputs& inputs) {
  try {
    StepInput in = t.phase("data_wait", [&] { return inputs.next(); });
    check(in.batch != nullptr, "train_step: the data ended before the last step");
    return in;
  } catch (const DataFailed&) {
    if (t.gradient_acc > 1) t.statistics.restore();
    throw;
  }
}

/// Updates the weights, the copy of them that matrix products read, and their average.
Optimizer::Result update_backbone(Trainer& t, std::int64_t step) {
  const Optimizer::Result result =
      t.optimizer.step(t.backbone->gradients(), t.backbone->weights.flat(),
                       {.lr = t.lr->at(step),
                        .number = update_number(t),
                        .loss_scale = t.loss_scale.value(),
                        .operands = t.backbone->operands()});
  if (!result.finite) return result;
  t.backbone->operands_are_current = true;
  if (t.average) t.average->add(update_number(t));
  return result;
}

/// Ends training by throwing. All workers have the same loss and the same reduced gradients, so all
/// stop at the same place.
void stop_not_finite(Trainer& t, const StepSoFar& so_far, const StepDump::Verdict& verdict) {
  const std::int64_t micro_batches = std::ssize(so_far.labels) / std::ssize(so_far.in.all_labels);
  const GivenToHead given{
      .step = so_far.in.step,
      .update = update_number(t),
      .lr = t.lr->at(so_far.in.step),
      .micro_batches = micro_batches,
      .embeddings = row_range(t.all_embeddings, 0, micro_batches * samples_of(t)),
      .labels = so_far.labels};
  t.phase("dump", [&] { t.dump.stop(given, verdict); });
}

void expect_finite_loss(Trainer& t, const StepSoFar& so_far) {
  t.comm.throw_if_failed();  // the loss is valid only if no collective has failed
  if (std::isfinite(so_far.head.loss)) {
    if (t.distillation) {
      t.distillation->expect_finite(so_far.head.logits_loss, so_far.in.step);
    }
    return;
  }
  stop_not_finite(t, so_far, {.not_finite = "the loss", .loss = so_far.head.loss});
}

/// Throws if a gradient is not finite, unless a smaller loss scale might make it finite.
void expect_finite_gradient(Trainer& t, const StepSoFar& so_far, const Optimizer::Result& update) {
  // The norm of the gradients is valid only if no collective has failed. On a GPU, the Comm of the
  // gradients is checked here too.
  t.comm.throw_if_failed();
  if (update.finite || t.loss_scale.can_shrink()) return;
  stop_not_finite(t, so_far,
                  {.not_finite = "the gradient of the backbone",
                   .loss = so_far.stats.loss,
                   .rows_moved = so_far.head.moved,
                   .d_embeddings = t.d_embeddings});
}

// The shapes of the results stand at the right margin.
// clang-format off

/// Passes one micro-batch forward and backward, and adds its gradients. The last micro-batch starts
/// the reduction of the gradients.
void micro_step(Trainer& t, StepSoFar& so_far, std::int64_t micro) {
  const StepInput& in = so_far.in;
  t.phase("images", [&] { t.backbone->read(in.images); });                    // [B, H, W, 3]
  const Tensor emb = t.phase("forward", [&] {
    return t.backbone->forward(t.backbone->input(), /*training=*/true,
                               in.batch->index);                              // [B, D]
  });
  if (t.distillation) {
    t.phase("teacher", [&] { t.distillation->compare(in.images, emb); });     // [B, D]
  }
  const Tensor theirs = t.phase("all_gather", [&] {
    t.exchange.all_gather(emb, rows_of(t, t.all_embeddings, micro));          // [N, D]  comm 1
    return t.distillation ? t.distillation->gather(t.comm) : Tensor();        // [N, E] or null
  });
  if (in.active.pages) t.phase("centres_wait", [&] { in.active.pages->wait(); });
  so_far.head = t.phase("head", [&] {
    return t.head->run(head_step(t, in, micro, theirs)); // [N, D], [N], [S, D]; statistics: comm 2, 3
  });
  expect_finite_loss(t, so_far);
  if (compares_embeddings(t)) {
    so_far.distillation_loss += t.phase("teacher", [&] { return t.distillation->loss_sum(); });
  }
  const Tensor d_emb = rows_of(t, t.d_embeddings, micro);                     // [B, D]
  t.phase("reduce_scatter", [&] {
    t.exchange.reduce_scatter(so_far.head.d_embeddings, d_emb);               // comm 4
  });
  if (compares_embeddings(t)) t.phase("teacher", [&] { t.distillation->add_gradient(d_emb); });
  t.phase("backward", [&] {
    const auto loss_scale = static_cast<float>(t.loss_scale.value());
    t.backbone->backward(d_emb, {.accumulate = micro > 0, .gradient_scale = loss_scale},
                         [&](std::int64_t offset) {
                           if (is_last(t, micro)) t.reducer->ready(offset);  // overlaps the rest
                         });
  });
}

}  // namespace

StepStats train_step(Trainer& t, StepInputs& inputs) {
  StepSoFar so_far;
  t.statistics.keep();
  for (std::int64_t micro = 0; micro < t.gradient_acc; ++micro) {
    so_far.in = next_input(t, inputs);
    if (so_far.in.signals.stop && !is_last(t, micro)) return give_up(t, inputs, so_far.in);
    add_input(t, so_far);
    micro_step(t, so_far, micro);
    so_far.stats.loss += so_far.head.loss * share_of_micro_batch(t);
    if (t.distillation && t.distillation->compares_logits()) {
      so_far.stats.logits_loss = so_far.stats.logits_loss.value_or(0) +
                                 so_far.head.logits_loss * share_of_micro_batch(t);
    }
    if (is_last(t, micro)) t.sampler.keep_images(so_far.in);
    inputs.recycle(so_far.in);
  }
  t.phase("gradient_wait", [&] { t.reducer->wait(); });
  const StepInput& in = so_far.in;
  if (compares_embeddings(t)) {
    so_far.stats.distillation_loss = t.phase("teacher", [&] {
      return t.distillation->step_loss(t.comm, so_far.distillation_loss, in.step);
    });
  }
  const Optimizer::Result update = t.phase("optimizer", [&] { return update_backbone(t, in.step); });
  expect_finite_gradient(t, so_far, update);
  if (update.finite && !so_far.head.moved) {
    t.phase("head", [&] { t.head->move(head_step(t, in, t.gradient_acc - 1)); });
  }
  add_update(t, update, so_far.stats);
  t.loss_scale.update(update.finite);  // if not finite, no worker has changed backbone or centres
  return so_far.stats;
}
// clang-format on

}  // namespace pfc
