// Running statistics of a batch norm, used in evaluation.
#pragma once

#include <cstdint>

#include "kernels/math/host_device.h"

namespace pfc {

/// Update of the running statistics in one step, the same for every channel.
struct RunningStatisticsRule {
  float momentum;
  float unbias;  ///< n / (n - 1): converts a biased variance over n rows to unbiased
};

/// Same as torch.nn.BatchNorm2d. One row has no unbiased variance, so the biased one is used.
/// REQUIRES: total_rows > 0.
inline RunningStatisticsRule running_statistics_rule(float momentum, std::int64_t total_rows) {
  const auto rows = static_cast<double>(total_rows);
  return {.momentum = momentum,
          .unbias = total_rows > 1 ? static_cast<float>(rows / (rows - 1)) : 1.f};
}

/// Updates one channel. mean and (biased) variance are those of the step's rows.
PFC_HOST_DEVICE void update_running(const RunningStatisticsRule& rule, float mean, float variance,
                                    float& running_mean, float& running_variance) {
  const float kept = 1.f - rule.momentum;
  running_mean = kept * running_mean + rule.momentum * mean;
  running_variance = kept * running_variance + rule.momentum * (variance * rule.unbias);
}

}  // namespace pfc
