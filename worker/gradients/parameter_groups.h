// Ranges of the weights that one optimizer call updates, like torch.optim's parameter groups.
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/config.h"
#include "model/networks/backbone.h"

namespace pfc {

/// Elements [offset, offset + count) of the weights.
struct ParameterGroup {
  std::int64_t offset = 0, count = 0;
  double lr = 1;  ///< multiplies the step's learning rate
  double weight_decay = 0;
};

/// Returns the groups of all weights that are not frozen, in the order of their offsets. Adjacent
/// weights with equal values form one group.
std::vector<ParameterGroup> parameter_groups(const JobConfig& job, const Arena& weights);

}  // namespace pfc
