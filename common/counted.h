// "1 worker", "3 workers": a number with its noun, for messages.
#pragma once

#include <string>

namespace pfc {

/// The plural adds an "s".
inline std::string counted(long long number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

}  // namespace pfc
