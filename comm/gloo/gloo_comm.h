// Collectives of host memory over Gloo.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "comm/comm_options.h"
#include "comm/key_value_store.h"

namespace pfc {

/// Makes the Comm for two or more workers. Uses the store only to connect. Adds sums in rank
/// order, so the result is bit-identical on every worker and in every run. Each worker sends (W -
/// 1) / W of the data in a reduce-scatter and twice that in an all-reduce, which is the minimum.
/// Throws CommError.
std::unique_ptr<Comm> make_gloo_comm(const CommOptions& options, KeyValueStore& store);

/// Returns the bytes that a Comm of make_gloo_comm() allocates for received parts of sums: some
/// pieces per peer.
std::size_t gloo_comm_bytes(int world_size);

}  // namespace pfc
