// Key-value store by which the workers of a generation find each other: Gloo's addresses and
// NCCL's id, as opaque bytes.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "common/clock.h"
#include "coordinator/cluster/waiting_calls.h"
#include "coordinator/rules/refusal.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Used on the event loop only.
class KeyValues {
 public:
  static constexpr std::size_t kMaxKey = 1'024;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  ///< all keys and values
  static constexpr int kMaxCount = 65'536;                         ///< maximum `count` of get_all()
  static constexpr std::size_t kMaxWaiting = 65'536;  ///< waiting get() calls; also get_all() calls

  /// Sets the key and answers its waiters. Returns false, without changes, if it is too large.
  bool set(const std::string& key, const std::string& value);
  /// Answers when the key is set, or refuses at the deadline. Refuses a key longer than kMaxKey,
  /// and a call beyond kMaxWaiting.
  void get(const std::string& key, Patience patience, Answer<std::string> answer);
  /// Answers with the values of prefix + "0" to prefix + (count - 1) when all are set, or at the
  /// deadline with a list of the missing ones. Refuses an invalid count and too many calls. The
  /// cost of setting a key does not depend on the number of waiters.
  void get_all(const std::string& prefix, int count, Patience patience,
               Answer<proto::GetValuesReply> answer);
  /// Ends the waiting calls that are over their deadline, or whose caller has gone.
  void expire(TimePoint now);
  /// Refuses all waiting calls and removes all values.
  void clear(const Refusal& why);

 private:
  struct Waiter {
    std::string key;
    Patience patience;
    Answer<std::string> answer;
  };
  struct GroupWaiter {
    Patience patience;
    Answer<proto::GetValuesReply> answer;
  };
  /// Calls that wait for the same keys.
  struct Group {
    int missing = 0;  ///< keys not set
    WaitingCalls<GroupWaiter> waiters;
  };
  using GroupKey = std::pair<std::string, int>;  ///< prefix and count

  void note_in_groups(const std::string& key);
  [[nodiscard]] proto::GetValuesReply values_of(const GroupKey& which) const;

  std::map<std::string, std::string> values_;
  WaitingCalls<Waiter> waiters_;
  std::map<GroupKey, Group> groups_;   // incomplete groups
  std::size_t waiting_in_groups_ = 0;  // total of all groups_
  std::size_t bytes_ = 0;
};

}  // namespace pfc
