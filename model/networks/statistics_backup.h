// Restores the running statistics when a step is abandoned after some of its micro-batches.
#pragma once

#include <cstdint>

#include "kernels/owned_tensor.h"
#include "model/networks/backbone.h"

namespace pfc {

/// A copy of the running statistics. Apart from the gradients, they are the only part of a backbone
/// that a micro-batch changes. Enqueues its copies. Owned by the training thread.
class StatisticsBackup {
 public:
  /// `needed`: whether a step has several micro-batches; if not, no copy is kept. Borrows the rest.
  StatisticsBackup(Ops& ops, Backbone& backbone, bool needed);

  void keep();     ///< call before the first micro-batch of a step
  void restore();  ///< restores the values of the last keep(). REQUIRES: needed

  /// Returns the bytes on the device.
  [[nodiscard]] static std::size_t bytes(std::size_t state_bytes, bool needed) {
    return needed ? state_bytes : 0;
  }

 private:
  Ops& ops_;
  Backbone& backbone_;
  OwnedTensor state_;  // [state.count]; empty if not needed
  std::int64_t batches_tracked_ = 0;
};

}  // namespace pfc
