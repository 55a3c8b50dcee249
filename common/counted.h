// Formats a number with its noun for messages: "1 worker", "3 workers".
#pragma once

#include <string>

namespace pfc {

/// Forms the plural with "s".
inline std::string counted(long long number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

}  // namespace pfc
