// Looks into a training step now and then: how long its embeddings are, how near they are to their
// classes' centres, and what its images look like.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/comm.h"
#include "worker/head/head.h"
#include "worker/input/step_input.h"

namespace pfc {

/// Of a step's last micro-batch.
struct StepSample {
  std::vector<float> lengths;         ///< [N], of the embeddings of all workers, as the network
                                      ///< gives them
  std::vector<float> target_cosines;  ///< [N], as the loss has them (Head::target_cosines)
  Shape images_shape;                 ///< [k, H, W, 3]
  std::vector<std::uint8_t> images;   ///< RGB, augmented: the first ones of this worker
};

/// Steps that are not sampled cost one comparison. For the training thread; all workers have one
/// with the same `every`.
class StepSampler {
 public:
  static constexpr std::int64_t kMostImages = 8;

  StepSampler() = default;
  /// every: steps between two samples; 0: none. `keeps`: whether this worker wants the samples,
  /// which rank 0 should.
  StepSampler(std::int64_t every, bool keeps) : every_(every), keeps_(keeps) {}

  /// The first step, and every `every`-th.
  [[nodiscard]] bool wants(std::int64_t step) const {
    return every_ > 0 && (step == 1 || step % every_ == 0);
  }
  /// Keeps some images of the step's last micro-batch, where the step is wanted; of embeddings
  /// nothing. REQUIRES: `in` has its batch.
  void keep_images(const StepInput& in);

  /// What the sampling works on.
  struct Step {
    Ops& ops;
    Head& head;
    Comm& comm;         ///< for host memory
    Tensor embeddings;  ///< [N, D] float32 of the last micro-batch, not normalised
  };
  /// The sample of a wanted step that is complete; empty where this worker does not want it.
  /// Collective: every worker calls it after the same steps, and it sums N floats. Waits for the
  /// device. Throws CommError, DeviceError.
  StepSample take(const Step& step);

 private:
  std::int64_t every_ = 0;
  bool keeps_ = false;
  StepSample next_;  // its images
};

}  // namespace pfc
