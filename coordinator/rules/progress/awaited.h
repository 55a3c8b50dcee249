// Finds workers that others wait for, from the workers' positions in each communicator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/ids.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// The last report of a worker. Not owned.
struct Standing {
  Rank rank = 0;
  const proto::Progress* progress = nullptr;
};

/// A worker that is not waiting itself, and has not begun a collective in which others wait.
struct Awaited {
  Rank rank = 0;
  std::string purpose;       ///< purpose of the communicator: "step"
  std::string kind;          ///< kind of the collective: "all_gather"
  std::uint64_t number = 0;  ///< sequence number of the collective
  int waiting = 0;           ///< number of workers that wait in this collective

  friend bool operator==(const Awaited&, const Awaited&) = default;
};

/// Returns the awaited workers, in order of `workers`. Omits workers that wait for others, however
/// far behind they are, and workers that report no communicators. The two-worker communicators
/// ("output") only show that a worker waits, not for which one. Pure.
std::vector<Awaited> find_awaited(std::span<const Standing> workers);

/// Returns "while 3 other workers wait for it in all_gather (number 4711 of communicator 'step')".
std::string to_text(const Awaited& awaited);

}  // namespace pfc
