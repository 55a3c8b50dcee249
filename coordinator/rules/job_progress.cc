#include "coordinator/rules/job_progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace pfc {

void JobProgress::update(const ClusterState& state, TimePoint now) {
  samples_per_second_ = 0;
  for (const WorkerState& worker : state.job.current.workers) {
    if (!worker.exit) samples_per_second_ += worker.progress.samples_per_second();
  }
  if (state.job.current.workers.empty() || !state.job.current.workers.front().training) return;
  const proto::Progress& lead = state.job.current.workers.front().progress;
  if (std::exchange(generation_, state.job.current.number) != state.job.current.number) {
    images_lost_ += std::max<std::int64_t>(images_seen_ - lead.resumed_images(), 0);
  }
  images_seen_ = lead.images_seen();
  step_ = lead.step();
  total_steps_ = lead.total_steps();
  epoch_ = lead.epoch();
  if (lead.steps() == 0) return;  // before a generation's first step the values are not meaningful
  loss_ = lead.loss();
  distillation_loss_.reset();
  logits_loss_.reset();
  if (lead.has_distillation_loss()) distillation_loss_ = lead.distillation_loss();
  if (lead.has_logits_loss()) logits_loss_ = lead.logits_loss();
  learning_rate_ = lead.lr();
  gradient_norm_ = lead.gradient_norm();
  loss_scale_ = lead.loss_scale();
  if (!first_) first_ = {.step = step_, .at = now};
  const double elapsed = seconds_since(first_->at, now);
  if (step_ > first_->step && total_steps_ >= step_) {
    const double seconds_per_step = elapsed / static_cast<double>(step_ - first_->step);
    remaining_seconds_ = seconds_per_step * static_cast<double>(total_steps_ - step_);
  }
}

void JobProgress::count_on(Generation generation, std::int64_t images_seen,
                           std::int64_t images_lost) {
  generation_ = generation;
  images_seen_ = images_seen;
  images_lost_ = images_lost;
}

std::string progress_line(const JobProgress& progress) {
  const double total = static_cast<double>(progress.total_steps());
  const int percent =
      total > 0 ? static_cast<int>(100.0 * static_cast<double>(progress.step()) / total) : 0;
  char text[200];
  std::snprintf(text, sizeof(text), "step %lld/%lld (%d %%)  epoch %lld  loss %.4f  %.1f samples/s",
                static_cast<long long>(progress.step()),
                static_cast<long long>(progress.total_steps()), percent,
                static_cast<long long>(progress.epoch()), progress.loss(),
                progress.samples_per_second());
  std::string line = text;
  if (const auto left = progress.remaining_seconds()) line += "  " + duration_text(*left) + " left";
  return line;
}

std::string duration_text(double seconds) {
  const auto total = static_cast<long long>(std::llround(std::max(seconds, 0.0)));
  const auto pair = [](long long big, const char* big_unit, long long small,
                       const char* small_unit) {
    std::string text = std::to_string(big) + big_unit;
    if (small > 0) text += " " + std::to_string(small) + small_unit;
    return text;
  };
  if (total < 120) return std::to_string(total) + " s";
  const long long minutes = (total + 30) / 60;
  if (minutes < 60) return std::to_string(minutes) + " min";
  if (minutes < 24LL * 60) return pair(minutes / 60, " h", minutes % 60, " min");
  const long long days = minutes / (24LL * 60);
  return pair(days, days == 1 ? " day" : " days", minutes / 60 % 24, " h");
}

}  // namespace pfc
