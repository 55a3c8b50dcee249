// Exponential moving average (EMA) of the backbone, for evaluation and for the written model.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/owned_tensor.h"
#include "model/networks/backbone.h"

namespace pfc {

/// Averages of the weights and running statistics, after every update:
///   average += part * (value - average), part = max(1 - decay, number^(-2/3)).
/// number^(-2/3) is a warm-up, as in timm's ModelEmaV3: it gives the first updates more weight. The
/// average of a value that never changes is this value. Enqueues its work. Belongs to the training
/// thread.
class WeightAverage {
 public:
  /// Borrows ops and backbone. The averages begin with the backbone's values.
  WeightAverage(Ops& ops, Backbone& backbone, double decay);

  void restart();  ///< begins again with the backbone's values
  /// Adds the backbone's values after update `number`, from 1.
  void add(std::int64_t number);
  /// Calls f while the backbone holds the averages instead of its own values. Afterwards, even if f
  /// throws, the backbone has its own values again, bit-identical.
  void during(const std::function<void()>& f);

  [[nodiscard]] Tensor weights() const { return weights_; }  ///< in the layout of the weights
  [[nodiscard]] Tensor state() const { return state_; }      ///< in the layout of the state

  /// The sizes of a WeightAverage's buffers in bytes.
  struct Bytes {
    std::size_t weights = 0, state = 0, scratch = 0;
    /// Returns the bytes of the averages, which checkpoints hold.
    [[nodiscard]] std::size_t averages() const { return weights + state; }
  };
  [[nodiscard]] static Bytes bytes(std::size_t weight_bytes, std::size_t state_bytes);

 private:
  void exchange();

  Ops& ops_;
  Backbone& backbone_;
  const double decay_;
  OwnedTensor weights_, state_, scratch_;
};

}  // namespace pfc
