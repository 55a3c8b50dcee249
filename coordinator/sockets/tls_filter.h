// Passes on connections that begin a TLS handshake.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "common/files/fd.h"

namespace pfc {

/// Used on the event loop only. gRPC closes plaintext connections silently; this class reports
/// them. Closes a connection that sends nothing for 10 s, and the oldest one if more than
/// kMostWaiting have sent nothing yet.
class TlsFilter {
 public:
  /// Receives a socket that begins a handshake.
  using Passed = std::function<void(Fd fd)>;
  /// Called with the peer's address when a connection sends anything else and is closed.
  using Refused = std::function<void(const std::string& peer)>;

  static constexpr std::size_t kMostWaiting = 4'096;

  TlsFilter(boost::asio::io_context& loop, Passed passed, Refused refused);
  ~TlsFilter();
  TlsFilter(const TlsFilter&) = delete;
  TlsFilter& operator=(const TlsFilter&) = delete;

  /// Takes ownership of a connected, non-blocking socket.
  void look(const boost::asio::ip::tcp& protocol, Fd fd);
  /// Closes the waiting connections.
  void close();

 private:
  struct Waiting {
    explicit Waiting(boost::asio::io_context& loop) : socket(loop), timer(loop) {}
    boost::asio::ip::tcp::socket socket;
    boost::asio::steady_timer timer;
  };
  using Place = std::list<std::shared_ptr<Waiting>>::iterator;

  void decide(Waiting& waiting);

  boost::asio::io_context& loop_;
  const Passed passed_;
  const Refused refused_;
  std::list<std::shared_ptr<Waiting>> waiting_;  ///< oldest first; shared with their handlers
};

}  // namespace pfc
