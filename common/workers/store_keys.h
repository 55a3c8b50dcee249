// Keys of a generation's key-value store that the coordinator itself answers.
#pragma once

#include <string>

#include "common/ids.h"

namespace pfc {

/// Begins the keys whose values are what the coordinator knows of a worker. Nobody sets them.
inline constexpr const char* kDoingPrefix = "coordinator/doing/";

/// Its value says what the worker of this rank does: "at step 120 in forward for 31 s".
inline std::string doing_key(Rank rank) { return kDoingPrefix + std::to_string(rank); }

}  // namespace pfc
