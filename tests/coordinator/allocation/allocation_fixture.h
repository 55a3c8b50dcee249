// Fake environment variables for tests of allocations.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "coordinator/allocation/variables.h"

namespace pfc::testing {

using Environment = std::map<std::string, std::string>;

inline Variables variables_of(Environment environment) {
  return [environment = std::move(environment)](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return {};
    return found->second;
  };
}

}  // namespace pfc::testing
