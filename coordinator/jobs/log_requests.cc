#include "coordinator/jobs/log_requests.h"

#include <utility>
#include <vector>

#include "common/one_line.h"

namespace pfc {

std::int64_t LogRequests::wait(const std::string& host, Answer<proto::LogsReply> answer,
                               TimePoint now) {
  if (waiters_.size() >= kMost) {
    answer(Refusal{.kind = Refusal::Kind::kOldGeneration,
                   .message = std::to_string(kMost) + " others read logs at this moment"});
    return 0;
  }
  waiters_[++last_] = {.host = host, .deadline = now + kPatience, .answer = std::move(answer)};
  return last_;
}

void LogRequests::answered(const std::string& host, const proto::LogChunk& chunk) {
  const auto found = waiters_.find(chunk.request());
  if (found == waiters_.end() || found->second.host != host) return;
  const Waiter waiter = std::move(found->second);
  waiters_.erase(found);
  if (!chunk.problem().empty() || chunk.text().size() > kLongestChunk) {
    return waiter.answer(
        Refusal{.kind = Refusal::Kind::kInvalid,
                .message = "host " + host + ": " +
                           (chunk.problem().empty() ? "more was sent than was asked for"
                                                    : one_line(chunk.problem()))});
  }
  proto::LogsReply reply;
  reply.set_text(chunk.text());
  *reply.mutable_next() = chunk.next();
  reply.set_skipped(chunk.skipped());
  waiter.answer(std::move(reply));
}

template <typename Predicate>
void LogRequests::refuse_if(Predicate predicate, const std::string& why) {
  std::vector<Waiter> refused;  // an answer may start another request
  for (auto place = waiters_.begin(); place != waiters_.end();) {
    if (!predicate(place->second)) {
      ++place;
      continue;
    }
    refused.push_back(std::move(place->second));
    place = waiters_.erase(place);
  }
  for (const Waiter& waiter : refused) {
    waiter.answer(Refusal{.kind = Refusal::Kind::kOldGeneration,
                          .message = "host " + waiter.host + ": " + why});
  }
}

void LogRequests::host_gone(const std::string& host) {
  refuse_if([&](const Waiter& waiter) { return waiter.host == host; }, "its agent has gone");
}

void LogRequests::expire(TimePoint now) {
  refuse_if([&](const Waiter& waiter) { return waiter.deadline <= now; },
            "its agent has not sent the log in " + std::to_string(kPatience.count()) + " s");
}

void LogRequests::clear(const Refusal& why) {
  refuse_if([](const Waiter&) { return true; }, why.message);
}

}  // namespace pfc
