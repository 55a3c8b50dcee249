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

  /// To be called after each step. Counts a finite update; for one that was not finite, which no
  /// worker has made, halves the scale. Doubles it after kGrowthInterval finite updates in a row.
  /// REQUIRES: all workers give the same answer, which they do because it is that of the summed
  /// gradients.
  void update(bool finite);
  /// How many updates the weights have seen, in this job and in those that it goes on from. AdamW's
  /// bias correction depends on it: it belongs to the moments, whatever a step is now. torch.optim
  /// counts the same in state["step"].
  [[nodiscard]] std::int64_t updates() const { return updates_; }
  /// Whether a smaller scale might make the gradients finite. At 1 the scale is not the reason.
  [[nodiscard]] bool can_shrink() const { return value_ > 1; }

  /// For checkpoints.
  struct State {
    double value = 0;  ///< 0: none
    std::int64_t finite_updates = 0;
    std::int64_t updates = 0;
  };
  [[nodiscard]] State state() const { return {value_, finite_updates_, updates_}; }
  /// Leaves the scale when this job or the checkpoint's has none: the precision has changed.
  void restore(const State& state);

 private:
  static constexpr double kInitial = 65536;             // torch.cuda.amp.GradScaler's
  static constexpr double kLargest = 1 << 24;           // above it float32 gradients overflow too
  static constexpr std::int64_t kGrowthInterval = 100;  // arcface_torch's

  explicit LossScale(double value) : value_(value) {}

  double value_;  // 0: none
  std::int64_t finite_updates_ = 0;
  std::int64_t updates_ = 0;
};

}  // namespace pfc
