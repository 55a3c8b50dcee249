// Keys of a generation's key-value store that the coordinator itself answers.
#pragma once

#include <string>

#include "common/ids.h"

namespace pfc {

/// Prefix of the keys whose values the coordinator computes. They are never set.
inline constexpr const char* kDoingPrefix = "coordinator/doing/";

/// Returns the key of what the worker of this rank is doing: "at step 120 in forward for 31 s".
inline std::string doing_key(Rank rank) { return kDoingPrefix + std::to_string(rank); }

}  // namespace pfc
