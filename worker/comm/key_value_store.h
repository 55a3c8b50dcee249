// A key-value store whose get() waits. Gloo's connections and NCCL's unique id are exchanged
// through it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

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
};

}  // namespace pfc
