// The requests for a worker's log that wait for the agent that has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "common/clock.h"
#include "coordinator/refusal.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Used on the event loop only. Each request has one answer of at most kLongestChunk bytes, so a
/// reader that does not read costs no more than that.
class LogRequests {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kLongestChunk = std::size_t{256} << 10;
  static constexpr std::chrono::seconds kPatience{10};

  /// Keeps the answer until the host's agent has told it. Returns the request's number, by which
  /// the agent names it; or refuses where too many wait, and returns 0.
  std::int64_t wait(const std::string& host, Answer<proto::LogsReply> answer, TimePoint now);
  /// The host's agent answers. What it was not asked for is dropped.
  void answered(const std::string& host, const proto::LogChunk& chunk);
  /// Refuses what the host was asked for: its agent has gone.
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
