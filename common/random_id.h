// Names for jobs, agents and the like that nobody else has.
#pragma once

#include <string>

namespace pfc {

/// 16 hexadecimal digits from the system's source of random numbers.
std::string random_id();

}  // namespace pfc
