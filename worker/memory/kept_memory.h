// Memory that the workers of a host keep from the previous generation.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "comm/key_value_store.h"
#include "common/ids.h"

namespace pfc {

/// The system does not count this memory as free. But a new generation counts it as free, and
/// divides it among the workers of the host: if a worker was replaced, the others still hold their
/// snapshots, and the new worker has none.
struct KeptMemory {
  std::uint64_t of_host = 0;  ///< bytes, all workers of this host
  std::uint64_t mine = 0;     ///< bytes, this worker
};

/// Reports this worker's kept memory and collects that of the others, waiting at most `timeout`;
/// workers that do not report by then count as 0. `host`: this host's name. Collective. Throws
/// CommError.
KeptMemory kept_on_this_host(KeyValueStore& store, const Membership& me, const std::string& host,
                             std::uint64_t mine, std::chrono::milliseconds timeout);

}  // namespace pfc
