// Accepts the TCP connections of one port on the event loop, and goes on doing so whatever happens.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

namespace pfc {

/// Used on the event loop only. Where no file descriptor is left it tries again after a pause.
/// Beyond that it closes a new connection at once when fewer than `held_back` descriptors would be
/// left: for the program's own files, and for listeners that hold back fewer.
class Listener {
 public:
  struct Options {
    std::string address;  ///< IPv4 or IPv6, no name
    int port = 0;         ///< 0: any free one
    std::string flag;     ///< of the command line, for errors: "--port"
    int held_back = 0;
  };
  /// Takes a connected, non-blocking socket, which is its own from now on.
  using Accepted = std::function<void(int fd)>;

  /// Throws InputError that names port and flag when the port cannot be used.
  Listener(boost::asio::io_context& loop, const Options& options, Accepted accepted);

  [[nodiscard]] int port() const { return port_; }
  /// Of the sockets that it gives away.
  [[nodiscard]] boost::asio::ip::tcp protocol() const { return protocol_; }
  /// Accepts nothing from now on.
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

/// The address that takes connections on all network interfaces: "::", for IPv6 and IPv4, or
/// "0.0.0.0" where this machine has no IPv6.
std::string any_address();

}  // namespace pfc
