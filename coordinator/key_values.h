// The key-value store through which the workers of one generation find each other: Gloo's
// addresses, and NCCL's id as bytes that mean nothing here.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/clock.h"
#include "coordinator/refusal.h"

namespace pfc {

/// Used on the event loop only.
class KeyValues {
 public:
  static constexpr std::size_t kMaxKey = 1'024;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  ///< all keys and values

  /// Sets the key and answers every get() that waits for it. Returns false, and changes nothing,
  /// when it is too large.
  bool set(const std::string& key, std::string value);
  /// Answers at once when the key is set; otherwise when it is set, or refuses after the deadline.
  void get(const std::string& key, TimePoint deadline, Answer<std::string> answer);
  /// Refuses the waiting calls whose deadline has passed.
  void expire(TimePoint now);
  /// Refuses every waiting call and removes every value.
  void clear(const Refusal& why);

 private:
  struct Waiter {
    std::string key;
    TimePoint deadline;
    Answer<std::string> answer;
  };

  std::map<std::string, std::string> values_;
  std::vector<Waiter> waiters_;
  std::size_t bytes_ = 0;
};

}  // namespace pfc
