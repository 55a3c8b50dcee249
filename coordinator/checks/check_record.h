// Collects the results of a check, from its workers and from the coordinator.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "coordinator/rules/cluster_state.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// The last refusal of each host's agent since the coordinator started, for up to kMost hosts.
/// Used on the event loop only.
class RefusedAgents {
 public:
  static constexpr std::size_t kMost = 256;
  struct Refused {
    std::string why;
    TimePoint at;
  };

  /// Records a refusal. Returns true if it should be printed: the first one of this host, or a new
  /// reason more than a minute after the last refusal. This limits output caused by strangers.
  bool add(const std::string& host, const std::string& why, TimePoint now);
  /// Called when an agent of the host was admitted.
  void forget(const std::string& host) { last_.erase(host); }
  /// Returns the reason of the latest refusal; empty if there is none.
  [[nodiscard]] std::string newest() const;
  [[nodiscard]] const std::map<std::string, Refused>& last() const { return last_; }

 private:
  std::map<std::string, Refused> last_;  ///< by the agent's name for its host
};

/// Used on the event loop only.
class CheckRecord {
 public:
  /// Limit on stored findings of all workers. The report says if some were dropped.
  static constexpr std::size_t kMostFindings = 20'000;
  static constexpr std::size_t kMostOfRequest = 2'000;

  /// Adds a worker's findings.
  void add(const WorkerState& worker, const proto::ReportCheckRequest& request);
  /// Records new incidents of this generation. Called repeatedly.
  void note(const ClusterState& state);
  /// Records a worker that did not finish the first generation in time. `agent_is_there`: its
  /// host's agent is connected.
  void note_late(const WorkerState& worker, double seconds, bool agent_is_there);
  void set_pairs(std::vector<proto::CheckPair> pairs) { pairs_ = std::move(pairs); }

  /// Returns the judged report. `refused` may explain missing hosts.
  [[nodiscard]] proto::CheckReport report(const ClusterState& state, const RefusedAgents& refused,
                                          TimePoint now) const;

 private:
  void add_missing_hosts(const ClusterState& state, const RefusedAgents& refused, TimePoint now,
                         std::vector<proto::CheckFinding>& findings) const;

  std::vector<proto::CheckFinding> findings_;
  std::vector<proto::CheckPair> pairs_;
  std::set<std::pair<Generation, std::size_t>> noted_;  ///< incidents recorded by note()
  bool dropped_ = false;
};

}  // namespace pfc
