// Finds what has happened to hosts and workers by comparing the cluster's state with what it was.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "coordinator/chronicle/event_log.h"
#include "coordinator/cluster_state.h"

namespace pfc {

/// Sees hosts that come, go and leave, failures, checkpoints, stops, and that all workers have
/// joined. The begin of a generation is for the caller to tell, who knows why.
class ClusterWatch {
 public:
  /// Failures of one generation that are told one by one. The others are the consequence, mostly.
  static constexpr std::size_t kMostFailures = 8;
  /// Between two checkpoints that are told: a state may be safe every second.
  static constexpr std::chrono::seconds kPause{30};

  /// What is new since the last call, oldest first, without number and time. Takes little where
  /// nothing is. REQUIRES: called at least once a generation.
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

  std::vector<Host> hosts_;  // as in the state
  std::string job_;
  Generation generation_ = 0;
  std::size_t incidents_ = 0;  // of this generation that were seen
  std::size_t failures_ = 0;   // of them, that were told
  bool lost_peers_ = false;    // was told
  bool begun_ = false;
  bool stops_ = false;
  TimePoint saved_at_;  // of the last checkpoint that was told
};

}  // namespace pfc
