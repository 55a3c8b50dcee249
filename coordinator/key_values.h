// The key-value store through which the workers of one generation find each other: Gloo's
// addresses, and NCCL's id as bytes that mean nothing here.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "coordinator/refusal.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Used on the event loop only.
class KeyValues {
 public:
  static constexpr std::size_t kMaxKey = 1'024;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  ///< all keys and values
  static constexpr int kMaxCount = 65'536;                         ///< of one get_all()
  static constexpr std::size_t kMaxWaiting = 65'536;  ///< calls of get(), and of get_all()

  /// Sets the key and answers those who wait for it. Returns false, and changes nothing, when it is
  /// too large.
  bool set(const std::string& key, const std::string& value);
  /// Answers at once when the key is set; otherwise when it is set, or refuses after the deadline.
  /// Refuses a key that cannot be set, and more calls than can wait.
  void get(const std::string& key, Patience patience, Answer<std::string> answer);
  /// Answers with the values of prefix + "0" to prefix + (count - 1) when all are set, or after the
  /// deadline, and then says which are missing. Refuses an impossible count, and more calls than
  /// can wait. A key that is set costs the same however many wait.
  void get_all(const std::string& prefix, int count, Patience patience,
               Answer<proto::GetValuesReply> answer);
  /// Answers or refuses the waiting calls whose time is over, or whose caller has gone.
  void expire(TimePoint now);
  /// Refuses every waiting call and removes every value.
  void clear(const Refusal& why);

 private:
  struct Waiter {
    std::string key;
    Patience patience;
    Answer<std::string> answer;
  };
  /// The calls that wait for the same keys.
  struct Group {
    int missing = 0;  ///< keys that are not set
    std::vector<std::pair<Patience, Answer<proto::GetValuesReply>>> waiters;
  };
  using GroupKey = std::pair<std::string, int>;  ///< prefix and count

  void note_in_groups(const std::string& key);
  [[nodiscard]] proto::GetValuesReply values_of(const GroupKey& which) const;

  std::map<std::string, std::string> values_;
  std::vector<Waiter> waiters_;
  std::map<GroupKey, Group> groups_;   // without those that are complete
  std::size_t waiting_in_groups_ = 0;  // the waiters of all groups_
  std::size_t bytes_ = 0;
};

}  // namespace pfc
