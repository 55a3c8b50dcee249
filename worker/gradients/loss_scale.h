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

  /// To be called after each step. When a gradient was not finite, halves the scale and counts the
  /// update as left out; doubles the scale after kGrowthInterval finite updates in a row. REQUIRES:
  /// all workers give the same answer, which they do because it is that of the summed gradients.
  void update(bool finite);
  /// How many updates have been left out. The others are numbered without them, as torch.optim
  /// numbers those that torch's GradScaler lets through: AdamW's bias correction depends on it.
  [[nodiscard]] std::int64_t left_out() const { return left_out_; }
  /// After a resume with another global batch, where `before` steps of the checkpoint's job are
  /// `now` of this one: of these the same part was left out.
  void count_in_steps_of_this_job(std::int64_t before, std::int64_t now);
  /// Whether a smaller scale might make the gradients finite. At 1 the scale is not the reason.
  [[nodiscard]] bool can_shrink() const { return value_ > 1; }

  /// For checkpoints.
  struct State {
    double value = 0;  ///< 0: none
    std::int64_t finite_updates = 0;
    std::int64_t left_out = 0;
  };
  [[nodiscard]] State state() const { return {value_, finite_updates_, left_out_}; }
  /// Leaves the scale when this job or the checkpoint's has none: the precision has changed.
  void restore(const State& state);

 private:
  static constexpr double kInitial = 65536;             // torch.cuda.amp.GradScaler's
  static constexpr double kLargest = 1 << 24;           // above it float32 gradients overflow too
  static constexpr std::int64_t kGrowthInterval = 100;  // arcface_torch's

  explicit LossScale(double value) : value_(value) {}

  double value_;  // 0: none
  std::int64_t finite_updates_ = 0;
  std::int64_t left_out_ = 0;
};

}  // namespace pfc
