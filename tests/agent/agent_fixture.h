// An agent in this process. Its workers are small shell scripts.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>

#include "agent/agent.h"
#include "tests/support/temporary_folder.h"

namespace pfc::testing {

/// An agent on a thread with its own loop.
class RunningAgent {
 public:
  explicit RunningAgent(const AgentOptions& options)
      : thread_([this, options] {
          boost::asio::io_context loop;
          const auto work = boost::asio::make_work_guard(loop);
          std::string problem;
          Agent agent(loop, options, [&](const std::string& why) {
            problem = why;
            loop.stop();
          });
          runs_on(&loop, &agent);
          loop.run();
          runs_on(nullptr, nullptr);
          problem_.set_value(problem);
        }) {}
  /// Ends the agent, because a coordinator that shuts down over a broken link could not.
  ~RunningAgent() {
    end_twice();
    thread_.join();
  }

  /// Acts as two signals do.
  void end_twice() {
    post([](Agent& agent) {
      agent.end({});
      agent.kill_workers();
    });
  }

  /// Acts as one signal does.
  void leave() {
    post([](Agent& agent) { agent.leave("SIGTERM"); });
  }

  /// Waits for the agent's end.
  std::string problem() { return problem_.get_future().get(); }

 private:
  void runs_on(boost::asio::io_context* loop, Agent* agent) {
    const std::lock_guard lock(mutex_);
    loop_ = loop;
    agent_ = agent;
    made_ = true;
    changed_.notify_all();
  }
  /// Waits until the agent exists. Does nothing once it has ended.
  void post(const std::function<void(Agent&)>& work) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return made_; });
    if (loop_ != nullptr) boost::asio::post(*loop_, [work, agent = agent_] { work(*agent); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool made_ = false;                        // guarded by mutex_, like the members below
  boost::asio::io_context* loop_ = nullptr;  // null once the agent has ended
  Agent* agent_ = nullptr;
  std::promise<std::string> problem_;
  std::thread thread_;
};

class AgentOfAHost : public ::testing::Test {
 protected:
  AgentOptions options(const std::string& coordinator, const std::string& host = "a") {
    return {.coordinator = coordinator,
            .host = host,
            .worker_program = folder / "pfc-worker",
            .patience = std::chrono::seconds{60},
            .coordinator_grace = std::chrono::seconds{60},
            .grace = std::chrono::milliseconds{100}};
  }

  /// Makes the workers run this script.
  void workers_do(const std::string& script) {
    std::ofstream(folder / "pfc-worker") << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(folder / "pfc-worker", std::filesystem::perms::owner_all);
  }

  TemporaryFolder folder;
};

}  // namespace pfc::testing
