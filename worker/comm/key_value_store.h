// A small blocking key-value store: what Gloo's rendezvous and the NCCL id hand-out need.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace pfc {

/// Keys are scoped to one generation. Thread-safe.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// Sets the value, waking every waiter. Throws CommError.
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;

  /// The value, once somebody has set it. Throws CommError that names the key when it is still
  /// missing after the timeout, or when the store cannot be reached.
  virtual std::vector<char> get(const std::string& key, std::chrono::milliseconds timeout) = 0;
};

}  // namespace pfc
