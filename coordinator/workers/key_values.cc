#include "coordinator/workers/key_values.h"

#include <iterator>
#include <optional>
#include <utility>

namespace pfc {

bool KeyValues::set(const std::string& key, const std::string& value) {
  const auto found = values_.find(key);
  const std::size_t before =
      found == values_.end() ? 0 : found->first.size() + found->second.size();
  const std::size_t after = bytes_ - before + key.size() + value.size();
  if (key.size() > kMaxKey || after > kMaxBytes) return false;
  const bool is_new = found == values_.end();
  bytes_ = after;
  values_[key] = value;
  waiters_.answer_if([&](const Waiter& each) { return each.key == key; },
                     [&](const Waiter&) { return value; });
  if (is_new) note_in_groups(key);
  return true;
}

void KeyValues::note_in_groups(const std::string& key) {
  const std::size_t last = key.find_last_not_of("0123456789");
  const std::string prefix = key.substr(0, last + 1);  // the whole key if there is no number
  const std::string number = key.substr(prefix.size());
  if (number.empty() || number.size() > 6 || (number.size() > 1 && number.front() == '0')) return;
  for (auto group = groups_.upper_bound({prefix, std::stoi(number)});
       group != groups_.end() && group->first.first == prefix;) {
    if (--group->second.missing > 0) {
      ++group;
      continue;
    }
    auto complete = groups_.extract(group++);
    waiting_in_groups_ -= complete.mapped().waiters.size();
    complete.mapped().waiters.answer_all(values_of(complete.key()));
  }
}

proto::GetValuesReply KeyValues::values_of(const GroupKey& which) const {
  proto::GetValuesReply reply;
  for (int number = 0; number < which.second; ++number) {
    const auto found = values_.find(which.first + std::to_string(number));
    if (found == values_.end()) reply.add_missing(number);
    reply.add_sizes(found == values_.end() ? 0 : static_cast<std::uint32_t>(found->second.size()));
    if (found != values_.end()) *reply.mutable_values() += found->second;
  }
  return reply;
}

void KeyValues::get_all(const std::string& prefix, int count, Patience patience,
                        Answer<proto::GetValuesReply> answer) {
  const bool ends_in_digit = !prefix.empty() && prefix.back() >= '0' && prefix.back() <= '9';
  if (count < 1 || count > kMaxCount || prefix.size() > kMaxKey || ends_in_digit) {
    return answer(Refusal{
        .kind = Refusal::Kind::kInvalid,
        .message = "found " + std::to_string(count) + " keys of a prefix, expected 1 to " +
                   std::to_string(kMaxCount) + ", and a prefix without a digit at its end"});
  }
  const GroupKey which(prefix, count);
  auto group = groups_.find(which);
  if (group == groups_.end()) {
    proto::GetValuesReply reply = values_of(which);
    if (reply.missing().empty()) return answer(std::move(reply));
    if (waiting_in_groups_ < kMaxWaiting) {
      group = groups_.emplace(which, Group{.missing = reply.missing_size()}).first;
    }
  }
  if (waiting_in_groups_ >= kMaxWaiting) {
    return answer(Refusal{.kind = Refusal::Kind::kInvalid,
                          .message = "at most " + std::to_string(kMaxWaiting) +
                                     " calls may wait for all keys of a prefix"});
  }
  group->second.waiters.add({.patience = std::move(patience), .answer = std::move(answer)});
  waiting_in_groups_ += 1;
}

void KeyValues::get(const std::string& key, Patience patience, Answer<std::string> answer) {
  if (const auto found = values_.find(key); found != values_.end()) return answer(found->second);
  if (key.size() > kMaxKey || waiters_.size() >= kMaxWaiting) {
    return answer(Refusal{.kind = Refusal::Kind::kInvalid,
                          .message = "a key may have at most " + std::to_string(kMaxKey) +
                                     " bytes, and at most " + std::to_string(kMaxWaiting) +
                                     " calls may wait for one"});
  }
  waiters_.add({.key = key, .patience = std::move(patience), .answer = std::move(answer)});
}

void KeyValues::expire(TimePoint now) {
  waiters_.expire(now, [](const Waiter& waiter) {
    return Refusal{.kind = Refusal::Kind::kTimeout,
                   .message = "key '" + waiter.key + "' was not set in time"};
  });
  for (auto group = groups_.begin(); group != groups_.end();) {
    std::optional<proto::GetValuesReply> reply;
    waiting_in_groups_ -= group->second.waiters.expire(now, [&](const GroupWaiter&) {
      return reply ? *reply : reply.emplace(values_of(group->first));
    });
    group = group->second.waiters.size() == 0 ? groups_.erase(group) : std::next(group);
  }
}

void KeyValues::clear(const Refusal& why) {
  values_.clear();
  bytes_ = 0;
  waiting_in_groups_ = 0;
  waiters_.answer_all(why);
  for (auto& [which, group] : std::exchange(groups_, {})) group.waiters.answer_all(why);
}

}  // namespace pfc
