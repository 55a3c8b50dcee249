// The Join calls of a generation's workers: they wait here until every rank has joined.
#pragma once

#include <vector>

#include "common/clock.h"
#include "coordinator/cluster_state.h"
#include "coordinator/refusal.h"

namespace pfc {

/// Used on the event loop only.
class JoinBarrier {
 public:
  /// Keeps the call. A second call of the same rank replaces the first one, which is refused.
  void wait(Rank rank, TimePoint since, TimePoint deadline, Answer<proto::JoinReply> answer);
  /// Answers every call when all workers have joined. Refuses those whose deadline has passed; the
  /// refusal names the workers that are missing.
  void update(const ClusterState& state, const std::string& job_json, TimePoint now);
  /// Refuses every call.
  void clear(const Refusal& why);

 private:
  struct Waiter {
    Rank rank = 0;
    TimePoint since;
    TimePoint deadline;
    Answer<proto::JoinReply> answer;
  };
  std::vector<Waiter> waiters_;
};

}  // namespace pfc
