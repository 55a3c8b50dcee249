// A coordinator with its gRPC service in this process, on a free port, its loop on a thread.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "coordinator/coordinator.h"
#include "coordinator/rpc/service.h"
#include "tests/coordinator/text_output.h"

namespace pfc::testing {

/// Short pauses, and timeouts that no test waits for and that even a slow machine does not reach.
inline RendezvousConfig impatient() {
  using namespace std::chrono_literals;
  RendezvousConfig config;
  config.limits = {.start = 2min, .silence = 2min, .leave = 2min};
  config.grace = 300ms;
  config.stop = 2min;
  config.terminate = 300ms;
  config.kill = 2min;
  return config;
}

class RunningCoordinator {
 public:
  /// Without a job id it is a service.
  explicit RunningCoordinator(std::vector<HostSpec> hosts, RendezvousConfig config = impatient(),
                              int port = 0, const std::string& job_id = "0123456789abcdef",
                              Gate* gate = nullptr, const PendingConnections::Limits& pending = {},
                              std::chrono::milliseconds tick = std::chrono::milliseconds{10})
      : terminal_(output_, false),
        coordinator_(loop_,
                     {.hosts = std::move(hosts),
                      .is_service = job_id.empty(),
                      .rendezvous = config,
                      .tick = tick},
                     terminal_, [this](const Verdict& verdict) { verdict_.set_value(verdict); }),
        service_(loop_, coordinator_,
                 {.address = "127.0.0.1", .port = port, .gate = gate, .pending = pending}) {
    if (!job_id.empty()) {
      coordinator_.jobs().add({.id = job_id, .file = "job.json", .json = R"({"network":"r18"})"});
    }
    coordinator_.start(address());
    thread_ = std::thread([this] { loop_.run(); });
  }

  ~RunningCoordinator() { shut_down(); }

  /// Ends it as the program does, and ends the agents.
  void shut_down() {
    if (!thread_.joinable()) return;
    loop_.stop();
    thread_.join();
    service_.shut_down();
  }

  [[nodiscard]] int port() const { return service_.port(); }
  [[nodiscard]] std::string address() const {
    return "127.0.0.1:" + std::to_string(service_.port());
  }

  void stop(const std::string& reason, bool urgent) {
    boost::asio::post(loop_, [this, reason, urgent] { coordinator_.stop(reason, urgent); });
  }

  [[nodiscard]] proto::StatusReply status() {
    std::promise<proto::StatusReply> promise;
    boost::asio::post(loop_, [&] { promise.set_value(coordinator_.status()); });
    return promise.get_future().get();
  }

  /// Returns the text of /metrics.
  [[nodiscard]] std::string metrics() {
    std::string text;
    on_loop([&](auto&, Coordinator& coordinator) { text = coordinator.metrics_text(); });
    return text;
  }

  /// Calls `use` on the loop, and waits until it has returned.
  void on_loop(const std::function<void(boost::asio::io_context&, Coordinator&)>& use) {
    std::promise<void> done;
    boost::asio::post(loop_, [&] {
      use(loop_, coordinator_);
      done.set_value();
    });
    done.get_future().get();
  }

  /// Waits for the end of the job.
  Verdict verdict() { return verdict_.get_future().get(); }
  /// Clears the output so far, for long tests.
  void forget_output() {
    boost::asio::post(loop_, [this] { output_ = {}; });
  }
  /// Returns the output. REQUIRES: shut_down() was called.
  [[nodiscard]] std::string output() const { return output_.both; }

 private:
  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.get_executor()};
  TextOutput output_;
  Terminal terminal_;
  std::promise<Verdict> verdict_;
  Coordinator coordinator_;
  Service service_;
  std::thread thread_;
};

/// Polls until the condition is true. Limited by the test's own timeout.
template <typename Condition>
void wait_until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

}  // namespace pfc::testing
