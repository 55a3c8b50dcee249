// Keeps float16 gradients from underflow: the embeddings' gradient is multiplied by a power of two
// before it enters the backbone, and the backbone's summed gradients are divided by it again.
// Micikevicius et al., "Mixed precision training", arXiv 1710.03740, section 3.2.
#pragma once

#include <cstdint>

namespace pfc {

class LossScale {
 public:
  /// For float16 gradients: a scale that adapts.
  static LossScale dynamic() { return LossScale(kInitial); }
  /// For all other gradients: always 1.
  static LossScale none() { return LossScale(0); }

  [[nodiscard]] bool is_dynamic() const { return value_ > 0; }
  [[nodiscard]] double value() const { return is_dynamic() ? value_ : 1.0; }

  /// Call after each step. A finite update is counted; kGrowthInterval of them in a row double the
  /// scale. A non-finite update was skipped by every worker: the scale is halved. REQUIRES:
  /// `finite` is the same on all workers. It is the same, because it is computed from the summed
  /// gradients.
  void update(bool finite);
  /// The number of updates applied to the weights, in this job and in the jobs that it resumes.
  /// AdamW's bias correction uses this number and not the number of the step, because it must match
  /// the moments, and step numbers change with the global batch. Same as state["step"] of
  /// torch.optim.
  [[nodiscard]] std::int64_t updates() const { return updates_; }
  /// Whether a smaller scale might make the gradients finite. If the scale is 1, it is not the
  /// reason.
  [[nodiscard]] bool can_shrink() const { return value_ > 1; }

  /// For checkpoints.
  struct State {
    double value = 0;  ///< 0: no loss scale
    std::int64_t finite_updates = 0;
    std::int64_t updates = 0;
  };
  [[nodiscard]] State state() const { return {value_, finite_updates_, updates_}; }
  /// Keeps the current scale if the job or the checkpoint has no loss scale, because their
  /// precisions then differ.
  void restore(const State& state);

 private:
  static constexpr double kInitial = 65536;             // as in torch.cuda.amp.GradScaler
  static constexpr double kLargest = 1 << 24;           // above it float32 gradients overflow too
  static constexpr std::int64_t kGrowthInterval = 100;  // as in arcface_torch

  explicit LossScale(double value) : value_(value) {}

  double value_;  // 0: no loss scale
  std::int64_t finite_updates_ = 0;
  std::int64_t updates_ = 0;
};

}  // namespace pfc
