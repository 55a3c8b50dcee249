// Calls that are answered later: on an event, at their deadline, or when their caller has gone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "coordinator/rules/refusal.h"

namespace pfc {

/// `Call` is a struct with `Patience patience`, `Answer<Reply> answer`, and what the call waits
/// for. A call is removed before it is answered, because an answer may add another call. Used on
/// the event loop only.
template <typename Call>
class WaitingCalls {
 public:
  void add(Call call) { calls_.push_back(std::move(call)); }
  [[nodiscard]] std::size_t size() const { return calls_.size(); }

  /// Answers the calls that satisfy the predicate with `reply_of(call)`, a reply or a Refusal.
  /// Returns their number. Evaluates the predicate once for each call.
  template <typename Predicate, typename ReplyOf>
  std::size_t answer_if(Predicate predicate, ReplyOf reply_of) {
    const auto first = std::stable_partition(calls_.begin(), calls_.end(), std::not_fn(predicate));
    const std::vector<Call> ready(std::make_move_iterator(first),
                                  std::make_move_iterator(calls_.end()));
    calls_.erase(first, calls_.end());
    for (const Call& call : ready) call.answer(reply_of(call));
    return ready.size();
  }
  /// Same as answer_if() for calls whose deadline has passed or whose caller has gone.
  template <typename ReplyOf>
  std::size_t expire(TimePoint now, ReplyOf reply_of) {
    return answer_if([&](const Call& call) { return call.patience.is_over(now); }, reply_of);
  }
  /// Answers all calls with the same reply or Refusal.
  template <typename Result>
  void answer_all(const Result& result) {
    for (const Call& call : std::exchange(calls_, {})) call.answer(result);
  }

 private:
  std::vector<Call> calls_;
};

}  // namespace pfc
