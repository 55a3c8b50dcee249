// Runs the connection tests of one measurement step.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Runs the tests on its own thread. Each test starts after its delay and connects from and to the
/// given addresses. At most kAtOnce run at the same time. A test fails if it takes longer than
/// kPatience (transfers: kTransferPatience), or is not finished at the step's limit.
class NetworkTests {
 public:
  static constexpr std::size_t kAtOnce = 512;
  /// More than 1 s, after which TCP retransmits a lost SYN.
  static constexpr std::chrono::milliseconds kPatience{1'500};
  static constexpr std::chrono::milliseconds kTransferPatience{2'500};

  using Done = std::function<void(std::vector<proto::NetworkResult>)>;

  /// Calls `done` once, on that thread, unless this object is destroyed first. Throws
  /// std::system_error if the thread cannot start.
  NetworkTests(std::string secret, const proto::NetworkStep& step, Done done);
  ~NetworkTests();
  NetworkTests(const NetworkTests&) = delete;
  NetworkTests& operator=(const NetworkTests&) = delete;

 private:
  class Attempt;

  void start();
  void start_more();
  void ended(std::size_t number, proto::NetworkResult result);
  void finish();

  const std::string secret_;
  const proto::NetworkStep step_;
  const Done done_;
  boost::asio::io_context loop_{1};
  boost::asio::steady_timer limit_{loop_};
  std::vector<std::shared_ptr<Attempt>> attempts_;  // by test; shared with their handlers
  std::vector<proto::NetworkResult> results_;       // by test
  std::size_t started_ = 0;
  std::size_t ended_ = 0;
  bool finished_ = false;
  std::thread thread_;  // last: uses the members above
};

}  // namespace pfc
