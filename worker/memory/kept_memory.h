// Memory that the workers of a host have kept from the generation before.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "comm/key_value_store.h"
#include "common/ids.h"

namespace pfc {

/// It is not free, and it is a part of what the workers of the host share: where a worker has been
/// replaced, the others still have their snapshots and the new one has none.
struct KeptMemory {
  std::uint64_t of_host = 0;  ///< bytes, of all workers of this host
  std::uint64_t mine = 0;     ///< bytes, of this worker
};

/// Each worker tells what it has kept, and waits for the others at most so long; those that are not
/// there then count as nothing. `host`: this host's name. Collective. Throws CommError.
KeptMemory kept_on_this_host(KeyValueStore& store, const Membership& me, const std::string& host,
                             std::uint64_t mine, std::chrono::milliseconds timeout);

}  // namespace pfc
