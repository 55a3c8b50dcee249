// Event lines of pfcctl chaos.
#pragma once

#include <chrono>
#include <string>

namespace pfc {

/// Prints "14:03:07  kind        what" on stdout, with the local time of day.
void tell(const std::string& kind, const std::string& what);

/// Returns "3.2 s".
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace pfc
