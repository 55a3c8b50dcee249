// Key-value store with a blocking get(), for exchanging Gloo's addresses and NCCL's unique id.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/error.h"

namespace pfc {

/// Keys and values of one generation of a job. Thread-safe.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// Sets the value and wakes all threads that wait for it. Throws CommError.
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;

  /// Blocks until the value is set, and returns it. Throws CommError, which names the key, after
  /// the timeout or if the store cannot be reached.
  virtual std::vector<char> get(const std::string& key, std::chrono::milliseconds timeout) = 0;

  /// Blocks until the values of prefix + "0" to prefix + (count - 1) are set, and returns them.
  /// Values still missing after the timeout are nullopt. Throws CommError if the store cannot be
  /// reached. This default implementation reads key by key, and treats every error as a missing
  /// value.
  virtual std::vector<std::optional<std::vector<char>>> get_all(const std::string& prefix,
                                                                int count,
                                                                std::chrono::milliseconds timeout);
};

inline std::vector<std::optional<std::vector<char>>> KeyValueStore::get_all(
    const std::string& prefix, int count, std::chrono::milliseconds timeout) {
  using std::chrono::milliseconds;
  const TimePoint deadline = Clock::now() + timeout;
  std::vector<std::optional<std::vector<char>>> values(static_cast<std::size_t>(count));
  for (int number = 0; number < count; ++number) {
    // After the deadline, the remaining keys are still queried, to learn which values are missing.
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    try {
      values[static_cast<std::size_t>(number)] =
          get(prefix + std::to_string(number), std::max(left, milliseconds(1)));
    } catch (const CommError&) {  // NOLINT(bugprone-empty-catch): stays nullopt
    }
  }
  return values;
}

}  // namespace pfc
