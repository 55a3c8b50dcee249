// Identity of a worker. These are values passed as arguments; there is no global state.
#pragma once

#include <cstdint>

namespace pfc {

/// Number of the current set of workers, from 1; increases with every change of the set. The
/// requests of a worker that has joined carry it, and the coordinator rejects requests of older
/// generations.
using Generation = std::int64_t;

/// Number of a worker in its generation, 0 .. world_size - 1.
using Rank = int;

/// One worker's position in one generation.
struct Membership {
  Rank rank = 0;
  int world_size = 1;
  Generation generation = 1;
  int local_rank = 0;        ///< slot on this host, which selects its GPU; slots may be idle
  int local_world_size = 1;  ///< workers on this host

  friend bool operator==(const Membership&, const Membership&) = default;
};

}  // namespace pfc
