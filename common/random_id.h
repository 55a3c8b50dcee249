// Unique ids for jobs, agents and others.
#pragma once

#include <string>

namespace pfc {

/// Returns 16 hexadecimal digits from the system's random number source.
std::string random_id();

}  // namespace pfc
