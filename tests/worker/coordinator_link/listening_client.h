// A CoordinatorClient for tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "worker/coordinator_link/coordinator_client.h"

namespace pfc::testing {

/// Stores all reports, and wakes a test that waits for a phase.
class ListeningClient final : public CoordinatorClient {
 public:
  void set(const std::string&, const std::vector<char>&) override {}
  std::vector<char> get(const std::string&, std::chrono::milliseconds) override { return {}; }
  JoinResult join(std::chrono::milliseconds) override { return {}; }
  [[nodiscard]] bool stop_requested() const override { return false; }
  void on_superseded(std::function<void(const std::string&)>) override {}
  std::chrono::system_clock::time_point report_check(const std::vector<CheckFinding>&) override {
    return std::chrono::system_clock::now();
  }
  void on_trace(std::function<void(const TraceOrder&)>) override {}
  WallTime send_trace(const TracePart&, std::chrono::milliseconds) override {
    return std::chrono::system_clock::now();
  }
  Farewell finish(Outcome, const std::string&) override { return {.told = true}; }

  void report(const Progress& progress) override {
    const std::lock_guard lock(mutex_);
    reports_.push_back(progress);
    heard_.notify_all();
  }

  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return reports_.size();
  }

  std::vector<Progress> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        heard_.wait_for(lock, std::chrono::minutes{2}, [&] { return reports_.size() >= count; }));
    return reports_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  std::vector<Progress> reports_;
};

}  // namespace pfc::testing
