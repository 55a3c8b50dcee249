// Accepts the connections of other hosts' agents during a network measurement.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <thread>

namespace pfc {

/// Listens on a port chosen by the system, on all interfaces, on its own thread. Replies to hellos
/// that are authenticated and meant for this host, and measures the receive speed of transfers.
/// Closes other connections without a reply. At most kMostVisitors are open; a new one replaces
/// the oldest that is not authenticated. Each is closed after kVisit. Stops listening after kOpen,
/// which is longer than any measurement.
class ProbeListener {
 public:
  static constexpr int kMostVisitors = 1'024;
  static constexpr std::chrono::milliseconds kVisit{2'000};
  static constexpr std::chrono::milliseconds kOpen{15'000};
  /// Transfers: bytes during the warm-up are not counted, because TCP starts slowly.
  static constexpr std::chrono::milliseconds kWarmUp{20};
  static constexpr std::chrono::milliseconds kCounted{60};
  static constexpr std::size_t kSpeedBytes = 8;  ///< bits per second, big-endian; ends a transfer

  /// Throws boost::system::system_error if it cannot listen, std::system_error if no thread starts.
  ProbeListener(std::string secret, int host);
  ~ProbeListener();
  ProbeListener(const ProbeListener&) = delete;
  ProbeListener& operator=(const ProbeListener&) = delete;

  [[nodiscard]] int port() const { return port_; }

 private:
  using tcp = boost::asio::ip::tcp;
  class Visitor;

  void accept();
  void admit(tcp::socket socket);
  void forget_those_that_have_left();

  const std::string secret_;
  const int host_;
  boost::asio::io_context loop_{1};
  tcp::acceptor acceptor_{loop_};
  boost::asio::steady_timer pause_{loop_};  // after a failed accept
  boost::asio::steady_timer end_{loop_};
  std::list<std::shared_ptr<Visitor>> visitors_;  // shared with their handlers; oldest first
  int port_ = 0;
  std::thread thread_;  // last: uses the members above
};

}  // namespace pfc
