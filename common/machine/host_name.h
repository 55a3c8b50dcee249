// Returns the name of this machine.
#pragma once

#include <string>

namespace pfc {

/// The system's host name; "unknown" on failure.
std::string host_name();

}  // namespace pfc
