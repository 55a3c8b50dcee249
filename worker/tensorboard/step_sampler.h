// Samples some training steps: lengths of embeddings, cosines to class centres, and images.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/comm.h"
#include "worker/head/head.h"
#include "worker/input/step_input.h"

namespace pfc {

/// Sample of a step's last micro-batch.
struct StepSample {
  std::vector<float> lengths;         ///< [N], all workers' embeddings, before normalization
  std::vector<float> target_cosines;  ///< [N], as used in the loss (Head::target_cosines)
  Shape images_shape;                 ///< [k, H, W, 3]
  std::vector<std::uint8_t> images;   ///< RGB, augmented: the first images of this worker
};

/// For the training thread. All workers use the same `every`. Other steps cost one comparison.
class StepSampler {
 public:
  static constexpr std::int64_t kMostImages = 8;

  StepSampler() = default;
  /// every: number of steps between two samples; 0: no samples. keeps: whether this worker keeps
  /// samples, as rank 0 should.
  StepSampler(std::int64_t every, bool keeps) : every_(every), keeps_(keeps) {}

  /// Returns true for step 1 and for every multiple of `every`.
  [[nodiscard]] bool wants(std::int64_t step) const {
    return every_ > 0 && (step == 1 || step % every_ == 0);
  }
  /// If the step is sampled, keeps some images of its last micro-batch; for embeddings, keeps none.
  /// REQUIRES: `in` has its batch.
  void keep_images(const StepInput& in);

  /// Data to sample.
  struct Step {
    Ops& ops;
    Head& head;
    Comm& comm;         ///< for host memory
    Tensor embeddings;  ///< [N, D] float32 of the last micro-batch, not normalised
  };
  /// Returns the sample of a step that is complete and that wants() selects; empty if this worker
  /// does not keep samples. Collective: every worker calls it after the same steps, and it sums N
  /// floats. Waits for the device. Throws CommError, DeviceError.
  StepSample take(const Step& step);

 private:
  std::int64_t every_ = 0;
  bool keeps_ = false;
  StepSample next_;  // only its images are set
};

}  // namespace pfc
