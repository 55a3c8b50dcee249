// Requests to agents, for a log or a fault, that wait for the agent's reply.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "common/clock.h"
#include "coordinator/cluster/waiting_calls.h"
#include "coordinator/rules/refusal.h"

namespace pfc {

/// `Report` is the agent's message and has request(). Used on the event loop only.
template <typename Report>
class AgentRequests {
 public:
  static constexpr std::size_t kMost = 64;

  struct Options {
    std::chrono::seconds timeout;  ///< for the agent to reply
    Refusal too_many;              ///< if kMost requests wait
    Refusal late;                  ///< at the timeout; "host NAME: " precedes its message
  };
  explicit AgentRequests(Options options) : options_(std::move(options)) {}

  /// Stores `answer` until the host's agent replies. Returns the request number, or refuses and
  /// returns 0 if too many requests wait.
  std::int64_t wait(const std::string& host, Answer<Report> answer, TimePoint now) {
    if (calls_.size() >= kMost) {
      answer(options_.too_many);
      return 0;
    }
    calls_.add({.number = ++last_,
                .host = host,
                .patience = now + options_.timeout,
                .answer = std::move(answer)});
    return last_;
  }
  /// Called with an agent's report. Ignores unknown requests.
  void answered(const std::string& host, const Report& report) {
    calls_.answer_if(
        [&](const Call& call) { return call.number == report.request() && call.host == host; },
        [&](const Call&) { return report; });
  }
  /// Refuses the requests to this host, because its agent is gone.
  void host_gone(const std::string& host) {
    calls_.answer_if([&](const Call& call) { return call.host == host; },
                     [](const Call& call) {
                       return refusal(call, {.kind = Refusal::Kind::kOldGeneration,
                                             .message = "its agent has disconnected"});
                     });
  }
  void expire(TimePoint now) {
    calls_.expire(now, [this](const Call& call) { return refusal(call, options_.late); });
  }
  void clear(const Refusal& why) { calls_.answer_all(why); }

 private:
  struct Call {
    std::int64_t number = 0;
    std::string host;
    Patience patience;
    Answer<Report> answer;
  };
  static Refusal refusal(const Call& call, const Refusal& why) {
    return {.kind = why.kind, .message = "host " + call.host + ": " + why.message};
  }

  const Options options_;
  WaitingCalls<Call> calls_;
  std::int64_t last_ = 0;
};

}  // namespace pfc
