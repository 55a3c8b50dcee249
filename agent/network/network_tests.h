// The connections that this host tries in one step of a measurement.
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

/// Tries the step's tests on a thread of its own, each from the address and to the address that it
/// names, when it is to begin, and at most kAtOnce at the same time. A test has failed that takes
/// longer than kPatience, or kTransferPatience, or has not ended within the step's limit.
class NetworkTests {
 public:
  static constexpr std::size_t kAtOnce = 512;
  /// Longer than the second after which TCP sends a lost packet of a new connection again.
  static constexpr std::chrono::milliseconds kPatience{1'500};
  static constexpr std::chrono::milliseconds kTransferPatience{2'500};

  using Done = std::function<void(std::vector<proto::NetworkResult>)>;

  /// `done` is called once, on that thread, unless this object has been destroyed before. Throws
  /// std::system_error without a thread.
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
  std::thread thread_;  // last: it uses what is above
};

}  // namespace pfc
