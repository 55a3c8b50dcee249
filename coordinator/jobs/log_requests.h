// Requests for workers' logs that wait for an agent's reply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "common/clock.h"
#include "coordinator/rules/refusal.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Used on the event loop only. Each request gets one reply of at most kLongestChunk bytes, which
/// limits the memory for slow readers.
class LogRequests {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kLongestChunk = std::size_t{256} << 10;
  static constexpr std::chrono::seconds kPatience{10};

  /// Stores `answer` until the host's agent replies. Returns the request number, or refuses and
  /// returns 0 if too many requests wait.
  std::int64_t wait(const std::string& host, Answer<proto::LogsReply> answer, TimePoint now);
  /// Called with an agent's reply. Ignores unknown requests.
  void answered(const std::string& host, const proto::LogChunk& chunk);
  /// Refuses the requests to this host, because its agent is gone.
  void host_gone(const std::string& host);
  void expire(TimePoint now);
  void clear(const Refusal& why);

 private:
  struct Waiter {
    std::string host;
    TimePoint deadline;
    Answer<proto::LogsReply> answer;
  };
  template <typename Predicate>
  void refuse_if(Predicate predicate, const std::string& why);

  std::map<std::int64_t, Waiter> waiters_;
  std::int64_t last_ = 0;
};

}  // namespace pfc
