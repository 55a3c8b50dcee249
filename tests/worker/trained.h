// Progress of a test's training state.
#pragma once

#include <cstdint>

#include "worker/schedule/step_plan.h"

namespace pfc::testing {

/// Returns the progress after `steps` steps of one worker, all of one size.
inline TrainedSoFar trained_with(std::int64_t steps, std::int64_t images_of_a_step) {
  return {.images = steps * images_of_a_step,
          .step = steps,
          .next = {.epoch = 0, .position = steps * images_of_a_step},
          .planned = {.world_size = 1, .batch_size = images_of_a_step, .gradient_acc = 1}};
}

}  // namespace pfc::testing
