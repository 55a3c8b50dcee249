#include "coordinator/key_values.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pfc {
namespace {

/// Takes those that satisfy it out of the list: their answers may add new ones.
template <typename T, typename Predicate>
std::vector<T> take_if(std::vector<T>& list, Predicate predicate) {
  const auto first = std::stable_partition(list.begin(), list.end(), std::not_fn(predicate));
  std::vector<T> taken(std::make_move_iterator(first), std::make_move_iterator(list.end()));
  list.erase(first, list.end());
  return taken;
}

}  // namespace

bool KeyValues::set(const std::string& key, std::string value) {
  const auto found = values_.find(key);
  const std::size_t before =
      found == values_.end() ? 0 : found->first.size() + found->second.size();
  const std::size_t after = bytes_ - before + key.size() + value.size();
  if (key.size() > kMaxKey || after > kMaxBytes) return false;
  bytes_ = after;
  const std::string& kept = values_[key] = std::move(value);
  for (Waiter& waiter : take_if(waiters_, [&](const Waiter& each) { return each.key == key; })) {
    waiter.answer(kept);
  }
  return true;
}

void KeyValues::get(const std::string& key, TimePoint deadline, Answer<std::string> answer) {
  if (const auto found = values_.find(key); found != values_.end()) return answer(found->second);
  waiters_.push_back({.key = key, .deadline = deadline, .answer = std::move(answer)});
}

void KeyValues::expire(TimePoint now) {
  for (Waiter& waiter :
       take_if(waiters_, [&](const Waiter& each) { return each.deadline <= now; })) {
    waiter.answer(Refusal{.kind = Refusal::Kind::kTimeout,
                          .message = "key '" + waiter.key + "' was not set in time"});
  }
}

void KeyValues::clear(const Refusal& why) {
  values_.clear();
  bytes_ = 0;
  for (Waiter& waiter : std::exchange(waiters_, {})) waiter.answer(why);
}

}  // namespace pfc
