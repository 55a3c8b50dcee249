// KeyValueStore for workers that are threads of one process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "comm/key_value_store.h"
#include "common/error.h"

namespace pfc {

class MemoryStore : public KeyValueStore {
 public:
  void set(const std::string& key, const std::vector<char>& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }

  std::vector<char> get(const std::string& key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    // Uses the system clock: gcc's ThreadSanitizer does not know what wait_for calls.
    const auto deadline = std::chrono::system_clock::now() + timeout;
    if (!changed_.wait_until(lock, deadline, [&] { return values_.contains(key); })) {
      throw CommError("no value of '" + key + "' after " + std::to_string(timeout.count()) + " ms");
    }
    return values_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;                  // notified when a value is set
  std::map<std::string, std::vector<char>> values_;  // guarded by mutex_
};

}  // namespace pfc
