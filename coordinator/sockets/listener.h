// Accepts TCP connections on the event loop, and recovers from all errors.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "common/files/fd.h"

namespace pfc {

/// Used on the event loop only. Without free file descriptors it retries after a pause. It closes a
/// new connection immediately if fewer than `held_back` descriptors would remain: they are reserved
/// for the program's files and for listeners with a lower `held_back`.
class Listener {
 public:
  struct Options {
    std::string address;  ///< IPv4 or IPv6 address, not a name
    int port = 0;         ///< 0: any free port
    std::string flag;     ///< command-line flag, for errors: "--port"
    int held_back = 0;
  };
  /// Receives a connected, non-blocking socket.
  using Accepted = std::function<void(Fd fd)>;

  /// Throws InputError that names port and flag if the port cannot be used.
  Listener(boost::asio::io_context& loop, const Options& options, Accepted accepted);

  [[nodiscard]] int port() const { return port_; }
  /// Protocol of the accepted sockets.
  [[nodiscard]] boost::asio::ip::tcp protocol() const { return protocol_; }
  /// Stops accepting.
  void close();

 private:
  void wait();
  void accept();
  void pause();

  const boost::asio::ip::tcp protocol_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer timer_;
  const int held_back_;
  const Accepted accepted_;
  int port_ = 0;
};

/// Returns the address that listens on all interfaces: "::" for IPv6 and IPv4, or "0.0.0.0" if
/// this machine has no IPv6.
std::string any_address();

}  // namespace pfc
