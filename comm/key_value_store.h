// A key-value store whose get() waits. Gloo's connections and NCCL's unique id are exchanged
// through it.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/error.h"

namespace pfc {

/// The keys of one generation of a job. Thread-safe.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// Sets the value, and wakes every thread that waits for it. Throws CommError.
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;

  /// The value, once it has been set. Throws CommError that names the key when it is still
  /// missing after the timeout, or when the store cannot be reached.
  virtual std::vector<char> get(const std::string& key, std::chrono::milliseconds timeout) = 0;

  /// The values of prefix + "0" to prefix + (count - 1), once all have been set. Those that are
  /// still missing after the timeout are empty. Throws CommError when the store cannot be reached.
  /// This implementation asks for one after the other, and takes every error for a missing value.
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
    // After the deadline the others are asked for too, so that all that are missing are known.
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    try {
      values[static_cast<std::size_t>(number)] =
          get(prefix + std::to_string(number), std::max(left, milliseconds(1)));
    } catch (const CommError&) {  // NOLINT(bugprone-empty-catch): it stays empty
    }
  }
  return values;
}

}  // namespace pfc
