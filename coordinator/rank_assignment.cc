#include "coordinator/rank_assignment.h"

namespace pfc {

std::vector<Member> assign_ranks(std::span<const HostState> hosts) {
  std::vector<Member> members;
  for (const HostState& host : hosts) {
    for (int slot = 0; slot < host.slots; ++slot) {
      members.push_back(
          {.rank = static_cast<Rank>(members.size()), .host = host.name, .slot = slot});
    }
  }
  return members;
}

}  // namespace pfc
