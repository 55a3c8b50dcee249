// Who a worker is. Values, passed in; nothing global.
#pragma once

#include <cstdint>

namespace pfc {

/// Counts the times that the set of workers has changed, from 1. Everything that a worker, agent or
/// coordinator says carries it; a request from an older generation is rejected.
using Generation = std::int64_t;

/// A worker's place in its generation, 0 .. world_size - 1.
using Rank = int;

/// One worker's place in one generation.
struct Membership {
  Rank rank = 0;
  int world_size = 1;
  Generation generation = 1;
  int local_rank = 0;        ///< slot on this host, which names its GPU; slots may be idle
  int local_world_size = 1;  ///< workers on this host

  friend bool operator==(const Membership&, const Membership&) = default;
};

}  // namespace pfc
