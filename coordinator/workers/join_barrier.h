// Join calls of workers, which wait until their generation is complete.
#pragma once

#include <cstdint>
#include <string>

#include "common/clock.h"
#include "coordinator/cluster/waiting_calls.h"
#include "coordinator/rules/cluster_state.h"
#include "coordinator/rules/refusal.h"

namespace pfc {

/// Used on the event loop only.
class JoinBarrier {
 public:
  struct Waiter {
    // Identifies the process.
    std::string host;
    int slot = 0;
    std::int64_t incarnation = 0;
    Generation left = 0;  ///< it has left this generation and waits for the next; 0: none
    TimePoint since;
    Patience patience;
    Answer<proto::JoinReply> answer;
  };

  /// Stores the call, and records that its worker has joined, unless it waits for the next
  /// generation. A second call of the same process replaces the first one, which is refused.
  void wait(ClusterState& state, Waiter waiter);
  /// Called when the generation's members have changed. Records the waiting workers that have
  /// joined it, and refuses those that do not belong to it.
  void members_changed(ClusterState& state);
  /// Answers the calls of this generation. Returns whether there were any. REQUIRES: all its
  /// workers have joined; in the first generation of a check, some may be missing.
  bool complete(ClusterState& state, const std::string& job_json,
                proto::CheckPart part = proto::CHECK_PART_NONE);
  /// Refuses the calls after their deadline, and names the missing workers.
  void expire(const ClusterState& state, TimePoint now);
  /// Refuses all calls.
  void clear(const Refusal& why) { waiters_.answer_all(why); }

 private:
  WaitingCalls<Waiter> waiters_;
};

}  // namespace pfc
