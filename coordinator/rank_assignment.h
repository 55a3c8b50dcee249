// Which worker gets which rank.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/ids.h"
#include "coordinator/cluster_state.h"

namespace pfc {

/// One worker to start.
struct Member {
  Rank rank = 0;
  std::string host;
  int slot = 0;  ///< its local rank

  friend bool operator==(const Member&, const Member&) = default;
};

/// Ranks go to the hosts in the order given, each host's slots one after the other: ranks of a host
/// are neighbours, which is what ring collectives want.
std::vector<Member> assign_ranks(std::span<const HostState> hosts);

}  // namespace pfc
