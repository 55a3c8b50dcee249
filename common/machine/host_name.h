// The name of this machine.
#pragma once

#include <string>

namespace pfc {

/// As the system has it; "unknown" where it does not say.
std::string host_name();

}  // namespace pfc
