// Workers wait here until every rank of their generation has come.
#pragma once

#include <vector>

#include "common/clock.h"
#include "coordinator/cluster_state.h"
#include "coordinator/refusal.h"

namespace pfc {

/// On the event loop only.
class JoinBarrier {
 public:
  /// A rank that asks again (its first call was lost) takes its own place.
  void wait(Rank rank, TimePoint since, TimePoint deadline, Answer<proto::JoinReply> answer);
  /// Answers everybody when all have joined; refuses those whose time is over, naming the missing.
  void update(const ClusterState& state, const std::string& job_json, TimePoint now);
  /// Refuses everybody.
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
