// Where the agents of other hosts reach this one while the network is measured.
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

/// Listens on a port that the system chooses, on all interfaces, and has a thread of its own.
/// Answers hellos that know the secret and mean this host, and measures how fast the bytes of a
/// transfer arrive; closes any other connection without a word. At most kMostVisitors are open; for
/// a new one the oldest is closed that has not shown that it knows the secret, and each is closed
/// after kVisit. After kOpen, longer than any measurement takes, it listens no more.
class ProbeListener {
 public:
  static constexpr int kMostVisitors = 1'024;
  static constexpr std::chrono::milliseconds kVisit{2'000};
  static constexpr std::chrono::milliseconds kOpen{15'000};
  /// Of a transfer: bytes of the first moments, in which TCP is slow, are not counted.
  static constexpr std::chrono::milliseconds kWarmUp{20};
  static constexpr std::chrono::milliseconds kCounted{60};
  static constexpr std::size_t kSpeedBytes =
      8;  ///< what ends a transfer: bits a second, big end first

  /// Throws boost::system::system_error when it cannot listen, std::system_error without a thread.
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
  std::list<std::shared_ptr<Visitor>> visitors_;  // shared with their handlers; the oldest first
  int port_ = 0;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace pfc
