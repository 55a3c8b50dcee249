// Before workers connect, each says that it is here, so that an absent one can be named.
#pragma once

#include <string>
#include <vector>

#include "worker/comm/comm_options.h"
#include "worker/comm/key_value_store.h"

namespace pfc {

/// Publishes this worker's address under the Comm's name and waits for all others'. Returns the
/// addresses by rank. Throws CommError naming every rank that is absent after connect_timeout.
std::vector<std::string> roll_call(const CommOptions& options, const std::string& address,
                                   KeyValueStore& store);

}  // namespace pfc
