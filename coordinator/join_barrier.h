// The Join calls of workers: they wait here until a generation of which they are is complete.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/clock.h"
#include "coordinator/cluster_state.h"
#include "coordinator/refusal.h"

namespace pfc {

/// Used on the event loop only.
class JoinBarrier {
 public:
  struct Waiter {
    // Which process it is.
    std::string host;
    int slot = 0;
    std::int64_t incarnation = 0;
    Generation left = 0;  ///< the generation that it has left, and waits for the next; 0: none
    TimePoint since;
    TimePoint deadline;
    Answer<proto::JoinReply> answer;
  };

  /// Keeps the call, and notes that its worker has joined, unless it waits for the next generation.
  /// A second call of the same process replaces the first one, which is refused.
  void wait(ClusterState& state, Waiter waiter);
  /// The workers of the generation are others than before: notes which of those that wait have
  /// joined it, and refuses those that are not of it.
  void members_changed(ClusterState& state);
  /// Answers the calls of this generation, and returns whether there were any. REQUIRES: all its
  /// workers have joined, unless they need no other: then it answers those who have.
  bool complete(ClusterState& state, const std::string& job_json,
                proto::CheckPart part = proto::CHECK_PART_NONE);
  /// Refuses the calls whose deadline has passed, and names the workers that are missing.
  void expire(const ClusterState& state, TimePoint now);
  /// Refuses every call.
  void clear(const Refusal& why);

 private:
  /// Takes the calls that satisfy it out of the list.
  template <typename Predicate>
  std::vector<Waiter> take_if(Predicate predicate);

  using Process = std::tuple<std::string, int, std::int64_t>;  ///< host, slot, incarnation
  std::map<Process, Waiter> waiters_;
};

}  // namespace pfc
