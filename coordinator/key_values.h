// The key-value store of one generation: Gloo's rendezvous, and the NCCL id as opaque bytes.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/clock.h"
#include "coordinator/refusal.h"

namespace pfc {

/// On the event loop only.
class KeyValues {
 public:
  static constexpr std::size_t kMaxKey = 1'024;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  ///< all keys and values

  /// Sets it, and answers everybody who waits for it. False: too large, nothing changed.
  bool set(const std::string& key, std::string value);
  /// Answers at once when the key is there, else when it is set or the deadline has passed.
  void get(const std::string& key, TimePoint deadline, Answer<std::string> answer);
  /// Refuses those whose deadline has passed.
  void expire(TimePoint now);
  /// Refuses everybody who waits, and forgets every value.
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
