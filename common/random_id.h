// Makes random ids, for example of jobs and agents.
#pragma once

#include <string>

namespace pfc {

/// Returns 16 hexadecimal digits from the system's random number source.
std::string random_id();

}  // namespace pfc
