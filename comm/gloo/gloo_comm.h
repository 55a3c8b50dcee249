// Collectives of host memory over Gloo.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "comm/comm_options.h"
#include "comm/key_value_store.h"

namespace pfc {

/// For two workers or more. The store is used only to connect. Sums are added in rank order, so
/// they have the same bits on every worker and in every run. Each worker sends (W - 1) / W of the
/// data in a reduce-scatter and twice that in an all-reduce, which is the minimum. Throws
/// CommError.
std::unique_ptr<Comm> make_gloo_comm(const CommOptions& options, KeyValueStore& store);

/// Bytes of memory that it keeps for parts of sums that it receives: some pieces from every peer.
std::size_t gloo_comm_bytes(int world_size);

}  // namespace pfc
