// Applies JobConfig::parameters and no_decay_on_norms to one tensor.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/config/config.h"

namespace pfc {

/// The name of the class centres in rules.
inline constexpr const char* kCentresName = "centres";

struct TensorUpdate {
  double lr = 1;  ///< multiplies the job's learning rate
  double weight_decay = 0;
};
/// Returns how to update the tensor. `is_vector`: it has rank 1, like norms, PReLUs and biases.
TensorUpdate update_of_tensor(const JobConfig& job, std::string_view name, bool is_vector);

/// Throws InputError if a rule matches neither one of the backbone's `names` nor kCentresName.
void check_parameter_rules(const JobConfig& job, std::span<const std::string> names);

}  // namespace pfc
