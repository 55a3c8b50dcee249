// Requested faults that wait for an agent's reply.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "common/clock.h"
#include "coordinator/chaos/fault_target.h"
#include "coordinator/rules/refusal.h"

namespace pfc {

/// Used on the event loop only.
class FaultRequests {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::chrono::seconds kPatience{5};
  using Reply = proto::InjectFaultReply;

  /// Stores `answer` until the host's agent replies. Returns the request number, or refuses and
  /// returns 0 if too many requests wait.
  std::int64_t wait(const FaultTarget& target, Answer<Reply> answer, TimePoint now);
  /// Called with an agent's reply. Ignores unknown requests.
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
