// Before connecting, workers register in the store, so that errors can name the missing ones.
#pragma once

#include <string>
#include <vector>

#include "comm/comm_options.h"
#include "comm/key_value_store.h"

namespace pfc {

/// Writes this worker's address under the Comm's name and waits for the addresses of all others.
/// Returns the address of each rank. After connect_timeout throws CommError that names the missing
/// ranks.
std::vector<std::string> roll_call(const CommOptions& options, const std::string& address,
                                   KeyValueStore& store);

}  // namespace pfc
