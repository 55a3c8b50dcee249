// Connects the NCCL communicators of all workers.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

#include "comm/comm_options.h"
#include "comm/key_value_store.h"

namespace pfc {

/// Returns a worker's place for use in errors: "127.0.0.1, GPU 1".
std::string nccl_place(const CommOptions& options, int gpu);

/// Waits until all workers are present (roll_call.h), gets NCCL's unique id from rank 0 through the
/// store, and connects on the calling thread's current GPU. Sets `places` to the result of
/// nccl_place() of each rank. After connect_timeout, throws CommError that names the missing ranks,
/// or the two ranks and the network interface.
ncclComm_t nccl_connect(const CommOptions& options, int gpu, KeyValueStore& store,
                        std::vector<std::string>& places);

}  // namespace pfc
