// Keeps float16 gradients away from underflow: the embeddings' gradient is multiplied by a power of
// two on its way into the backbone, and the sums over all workers are divided by it again.
// Micikevicius et al., "Mixed precision training", arXiv 1710.03740, section 3.2.
#pragma once

#include <cstdint>

namespace pfc {

class LossScale {
 public:
  /// Where gradients are float16; elsewhere 1, for good.
  static LossScale dynamic() { return LossScale(kInitial); }
  static LossScale none() { return LossScale(0); }

  [[nodiscard]] bool is_dynamic() const { return value_ > 0; }
  [[nodiscard]] double value() const { return is_dynamic() ? value_ : 1.0; }

  /// After each update, with the same verdict on every worker (it is made of summed gradients): so
  /// all skip an update, or none does. Halves the scale where a gradient is not finite, and doubles
  /// it after kGrowthInterval updates in a row that were.
  void update(bool finite);
  /// At a scale of 1 it is not the scale that makes a gradient infinite.
  [[nodiscard]] bool can_shrink() const { return value_ > 1; }

  /// For checkpoints.
  struct State {
    double value = 0;  ///< 0: none
    std::int64_t finite_updates = 0;
  };
  [[nodiscard]] State state() const { return {value_, finite_updates_}; }
  void restore(const State& state);

 private:
  static constexpr double kInitial = 65536;             // torch.cuda.amp.GradScaler's
  static constexpr double kLargest = 1 << 24;           // beyond it float32 gradients overflow too
  static constexpr std::int64_t kGrowthInterval = 100;  // arcface_torch's

  explicit LossScale(double value) : value_(value) {}

  double value_;  // 0: none
  std::int64_t finite_updates_ = 0;
};

}  // namespace pfc
