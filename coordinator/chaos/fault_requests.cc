#include "coordinator/chaos/fault_requests.h"

#include <utility>

#include "common/one_line.h"

namespace pfc {

std::int64_t FaultRequests::wait(const FaultTarget& target, Answer<Reply> answer, TimePoint now) {
  if (waiters_.size() >= kMost) {
    answer(Refusal{.kind = Refusal::Kind::kOldGeneration,
                   .message = std::to_string(kMost) + " faults wait for their agents already"});
    return 0;
  }
  waiters_[++last_] = {.host = target.host,
                       .name = target.name,
                       .deadline = now + kPatience,
                       .answer = std::move(answer)};
  return last_;
}

void FaultRequests::answered(const std::string& host, const proto::FaultReport& report) {
  const auto found = waiters_.find(report.request());
  if (found == waiters_.end() || found->second.host != host) return;
  const Waiter waiter = std::move(found->second);
  waiters_.erase(found);
  if (!report.problem().empty()) {
    return waiter.answer(
        Refusal{.kind = Refusal::Kind::kOldGeneration,
                .message = "host " + host + ": " + one_line(report.problem(), 400)});
  }
  Reply reply;
  reply.set_host(host);
  reply.set_target(waiter.name);
  waiter.answer(std::move(reply));
}

void FaultRequests::expire(TimePoint now) {
  for (auto place = waiters_.begin(); place != waiters_.end();) {
    if (place->second.deadline > now) {
      ++place;
      continue;
    }
    const Waiter waiter = std::move(place->second);
    place = waiters_.erase(place);
    waiter.answer(Refusal{.kind = Refusal::Kind::kTimeout,
                          .message = "host " + waiter.host + ": its agent has not answered for " +
                                     std::to_string(kPatience.count()) + " s"});
  }
}

void FaultRequests::clear(const Refusal& why) {
  for (auto& [number, waiter] : std::exchange(waiters_, {})) waiter.answer(why);
}

}  // namespace pfc
