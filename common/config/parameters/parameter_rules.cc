#include "common/config/parameters/parameter_rules.h"

#include <vector>

#include "common/config/parameters/name_patterns.h"

namespace pfc {

TensorUpdate update_of_tensor(const JobConfig& job, std::string_view name, bool is_vector) {
  TensorUpdate update{.weight_decay = job.no_decay_on_norms && is_vector ? 0 : job.weight_decay};
  for (const ParameterRule& rule : job.parameters) {
    if (!matches_pattern(name, rule.names)) continue;
    update.lr = rule.lr.value_or(update.lr);
    update.weight_decay = rule.weight_decay.value_or(update.weight_decay);
  }
  return update;
}

void check_parameter_rules(const JobConfig& job, std::span<const std::string> names) {
  std::vector<std::string> all(names.begin(), names.end()), patterns;
  all.emplace_back(kCentresName);
  for (const ParameterRule& rule : job.parameters) patterns.push_back(rule.names);
  check_patterns("parameters: names", patterns, all);
}

}  // namespace pfc
