// The faults that were asked for and wait for the answer of an agent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "common/clock.h"
#include "coordinator/chaos/fault_target.h"
#include "coordinator/refusal.h"

namespace pfc {

/// Used on the event loop only.
class FaultRequests {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::chrono::seconds kPatience{5};
  using Reply = proto::InjectFaultReply;

  /// Keeps the answer until the host's agent has told it, and returns the number by which the agent
  /// names the fault; or refuses where too many wait, and returns 0.
  std::int64_t wait(const FaultTarget& target, Answer<Reply> answer, TimePoint now);
  /// The host's agent answers. What it was not asked for is dropped.
  void answered(const std::string& host, const proto::FaultReport& report);
  void expire(TimePoint now);
  void clear(const Refusal& why);

 private:
  struct Waiter {
    std::string host;
    std::string name;
    TimePoint deadline;
    Answer<Reply> answer;
  };

  std::map<std::int64_t, Waiter> waiters_;
  std::int64_t last_ = 0;
};

}  // namespace pfc
