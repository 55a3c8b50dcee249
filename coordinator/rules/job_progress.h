// Progress of the whole job, and its remaining time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/rules/cluster_state.h"

namespace pfc {

/// Step, epoch and loss are rank 0's; samples per second are the sum of all workers.
class JobProgress {
 public:
  /// REQUIRES: the state contains a worker's new progress.
  void update(const ClusterState& state, TimePoint now);
  /// Continues the image counts of an earlier coordinator, whose last report was of `generation`.
  void count_on(Generation generation, std::int64_t images_seen, std::int64_t images_lost);

  [[nodiscard]] bool known() const { return first_.has_value(); }
  [[nodiscard]] std::int64_t step() const { return step_; }
  [[nodiscard]] std::int64_t total_steps() const { return total_steps_; }
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  /// Images that the current state of the model has been trained on.
  [[nodiscard]] std::int64_t images_seen() const { return images_seen_; }
  /// Images trained and discarded, because a generation resumed from an older state.
  [[nodiscard]] std::int64_t images_lost() const { return images_lost_; }
  [[nodiscard]] Generation generation() const { return generation_; }  ///< that of the last report
  [[nodiscard]] double loss() const { return loss_; }
  /// Empty unless the job compares its embeddings with a teacher's.
  [[nodiscard]] std::optional<double> distillation_loss() const { return distillation_loss_; }
  /// Empty unless the job compares its logits with a teacher's.
  [[nodiscard]] std::optional<double> logits_loss() const { return logits_loss_; }
  [[nodiscard]] double learning_rate() const { return learning_rate_; }
  [[nodiscard]] double gradient_norm() const { return gradient_norm_; }
  [[nodiscard]] double loss_scale() const { return loss_scale_; }  ///< 0: not used
  [[nodiscard]] double samples_per_second() const { return samples_per_second_; }
  /// Estimate from the mean speed since the first report, including evaluations and checkpoints.
  /// Empty before the second step.
  [[nodiscard]] std::optional<double> remaining_seconds() const { return remaining_seconds_; }

 private:
  struct Point {
    std::int64_t step = 0;
    TimePoint at;
  };
  std::optional<Point> first_;
  std::int64_t step_ = 0;
  std::int64_t total_steps_ = 0;
  std::int64_t epoch_ = 0;
  Generation generation_ = 0;
  std::int64_t images_seen_ = 0;
  std::int64_t images_lost_ = 0;
  double loss_ = 0;
  std::optional<double> distillation_loss_, logits_loss_;
  double learning_rate_ = 0;
  double gradient_norm_ = 0;
  double loss_scale_ = 0;
  double samples_per_second_ = 0;
  std::optional<double> remaining_seconds_;
};

/// Returns "step 120/2000 (6 %)  epoch 3  loss 12.3450  884.4 samples/s  12 min left".
std::string progress_line(const JobProgress& progress);

/// Returns "45 s", "12 min", "3 h 20 min", "2 days 4 h".
std::string duration_text(double seconds);

}  // namespace pfc
