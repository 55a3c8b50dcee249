// Reports hosts that have been silent for 5 s, long before they are declared lost.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "coordinator/rules/cluster_state.h"

namespace pfc {

class QuietHosts {
 public:
  /// Returns the messages to print: one when an agent (heartbeat: 1 s) has been silent for 5 s,
  /// and one when it is heard from again. Omits hosts that were declared lost meanwhile, which is
  /// reported elsewhere. `lost_after` appears in the text.
  std::vector<std::string> update(const ClusterState& state, std::chrono::milliseconds lost_after,
                                  TimePoint now);

 private:
  std::map<std::string, TimePoint> quiet_;  ///< hosts already reported, and when
};

}  // namespace pfc
