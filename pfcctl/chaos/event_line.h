// The lines by which pfcctl chaos tells what happens, when it happens.
#pragma once

#include <chrono>
#include <string>

namespace pfc {

/// "14:03:07  kind        what" on stdout, with the time of day in this machine's time zone.
void tell(const std::string& kind, const std::string& what);

/// "3.2 s"
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace pfc
