// Whom the others wait for, from how far each worker has come in each communicator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/ids.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// What a worker has told last. Borrowed.
struct Standing {
  Rank rank = 0;
  const proto::Progress* progress = nullptr;
};

/// A worker that waits for nobody, and that others wait for in a collective that it has not begun.
struct Awaited {
  Rank rank = 0;
  std::string purpose;       ///< of the communicator: "step"
  std::string kind;          ///< of the collective: "all_gather"
  std::uint64_t number = 0;  ///< of the collective
  int waiting = 0;           ///< how many workers are in it

  friend bool operator==(const Awaited&, const Awaited&) = default;
};

/// In the order of the workers. A worker that waits for another one is never among them, however
/// far behind it is: it is in a collective that another one has not done either. Nor is one that
/// has told of no communicator. Communicators of two workers
/// ("output") only say who waits. Pure.
std::vector<Awaited> find_awaited(std::span<const Standing> workers);

/// "while 3 others wait for it in all_gather (number 4711 of 'step')"
std::string to_text(const Awaited& awaited);

}  // namespace pfc
