#include "worker/gradients/parameter_groups.h"

#include "common/config/parameters/parameter_rules.h"

namespace pfc {

std::vector<ParameterGroup> parameter_groups(const JobConfig& job, const Arena& weights) {
  std::vector<ParameterGroup> groups;
  for (std::size_t i = 0; i < weights.parameters.size(); ++i) {
    const Parameter& p = weights.parameters[i];
    if (p.frozen) continue;
    const bool last = i + 1 == weights.parameters.size();
    const std::int64_t end = last ? weights.count : weights.parameters[i + 1].offset;
    const TensorUpdate update = update_of_tensor(job, p.name, p.torch_shape.size() == 1);
    if (!groups.empty()) {
      ParameterGroup& before = groups.back();
      if (before.offset + before.count == p.offset && before.lr == update.lr &&
          before.weight_decay == update.weight_decay) {
        before.count += end - p.offset;
        continue;
      }
    }
    groups.push_back({.offset = p.offset,
                      .count = end - p.offset,
                      .lr = update.lr,
                      .weight_decay = update.weight_decay});
  }
  return groups;
}

}  // namespace pfc
