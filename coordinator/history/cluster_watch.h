// Derives events from changes of the cluster's state.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "coordinator/history/event_log.h"
#include "coordinator/rules/cluster_state.h"

namespace pfc {

/// Detects: hosts that join, disappear or are drained; failures; checkpoints; stops; and the moment
/// when all workers have joined. The caller, which knows the reason, reports the start of a
/// generation.
class ClusterWatch {
 public:
  /// Failures reported per generation. Later ones are mostly consequences.
  static constexpr std::size_t kMostFailures = 8;
  /// Minimum time between reported checkpoints, because a snapshot may be taken every second.
  static constexpr std::chrono::seconds kPause{30};

  /// Returns the events since the last call, oldest first, without number and time. Cheap if
  /// nothing has changed. REQUIRES: called at least once per generation.
  std::vector<ClusterEvent> update(const ClusterState& state);

 private:
  struct Host {
    bool registered = false;
    bool leaving = false;
    std::string agent_id;
  };
  void see_hosts(const ClusterState& state, std::vector<ClusterEvent>& found);
  void see_generation(const GenerationState& current, std::vector<ClusterEvent>& found);
  void see_job(const JobState& job, std::vector<ClusterEvent>& found);

  std::vector<Host> hosts_;  // same order as in the state
  std::string job_;
  Generation generation_ = 0;
  std::size_t incidents_ = 0;  // incidents of this generation seen so far
  std::size_t failures_ = 0;   // failures reported so far
  bool lost_peers_ = false;    // a lost peer has been reported
  bool begun_ = false;
  bool stops_ = false;
  TimePoint saved_at_;  // time of the last reported checkpoint
};

}  // namespace pfc
