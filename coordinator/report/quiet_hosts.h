// Tells a person which host does not answer, long before it is taken for lost.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"

namespace pfc {

class QuietHosts {
 public:
  /// What there is to say: once when nothing was heard of a host's agent for 5 s, although one is
  /// heard of every second, and once when it is back. Says nothing about a host that was declared
  /// lost in the meantime: that is reported elsewhere. `lost_after` is for the text.
  std::vector<std::string> update(const ClusterState& state, std::chrono::milliseconds lost_after,
                                  TimePoint now);

 private:
  std::map<std::string, TimePoint> quiet_;  ///< that were told, and when
};

}  // namespace pfc
