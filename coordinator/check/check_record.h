// What a check finds while it runs: what its workers tell, and what only the coordinator knows.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "coordinator/cluster_state.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Agents that were refused since the coordinator has started, and why: the last of each host, of
/// at most kMost hosts. Used on the event loop only.
class RefusedAgents {
 public:
  static constexpr std::size_t kMost = 256;
  struct Refused {
    std::string why;
    TimePoint at;
  };

  /// Records a refusal. Returns true if it should be printed: the first one of this host, or
  /// another reason more than a minute after the last refusal. This limits what strangers can
  /// print.
  bool add(const std::string& host, const std::string& why, TimePoint now);
  /// An agent of the host was admitted.
  void forget(const std::string& host) { last_.erase(host); }
  /// Why the last of these agents was refused; empty if there is none.
  [[nodiscard]] std::string newest() const;
  [[nodiscard]] const std::map<std::string, Refused>& last() const { return last_; }

 private:
  std::map<std::string, Refused> last_;  ///< by host, as the agent has named itself
};

/// Used on the event loop only.
class CheckRecord {
 public:
  /// Upper bound on what is kept of all workers together; more is dropped, and said.
  static constexpr std::size_t kMostFindings = 20'000;
  static constexpr std::size_t kMostOfRequest = 2'000;

  /// A worker tells what it has found.
  void add(const WorkerState& worker, const proto::ReportCheckRequest& request);
  /// Takes over the incidents of this generation, each once, and which workers have come to its
  /// end. Called again and again.
  void note(const ClusterState& state);
  /// The second generation begins without these workers of the first, which have not come to the
  /// end of it in time. `agent_is_there`: that of its host is connected.
  void note_late(const WorkerState& worker, double seconds, bool agent_is_there);
  void set_pairs(std::vector<proto::CheckPair> pairs) { pairs_ = std::move(pairs); }

  /// All of it, judged. `refused`: agents that may be those of hosts that are not here.
  [[nodiscard]] proto::CheckReport report(const ClusterState& state, const RefusedAgents& refused,
                                          TimePoint now) const;

 private:
  void add_missing_hosts(const ClusterState& state, const RefusedAgents& refused, TimePoint now,
                         std::vector<proto::CheckFinding>& findings) const;

  std::vector<proto::CheckFinding> findings_;
  std::vector<proto::CheckPair> pairs_;
  std::set<std::pair<Generation, std::size_t>> noted_;  ///< incidents
  bool dropped_ = false;
};

}  // namespace pfc
