// How workers' communicators find each other.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

#include "worker/comm/comm_options.h"
#include "worker/comm/key_value_store.h"

namespace pfc {

/// "127.0.0.1, GPU 1": a worker's place as errors name it.
std::string nccl_place(const CommOptions& options, int gpu);

/// Calls the roll, takes NCCL's unique id from rank 0 through the store, and connects, on the
/// calling thread's current GPU. places: by rank. Throws CommError that names who is absent, or the
/// pair of ranks and the network interface, after connect_timeout.
ncclComm_t nccl_connect(const CommOptions& options, int gpu, KeyValueStore& store,
                        std::vector<std::string>& places);

}  // namespace pfc
