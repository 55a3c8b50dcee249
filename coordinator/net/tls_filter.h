// Lets those connections pass that begin a TLS handshake.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>

namespace pfc {

/// Used on the event loop only. gRPC closes a connection in plaintext without a word to anybody;
/// here it can be told. A connection that sends nothing for 10 s is closed, and so is the oldest
/// one when more than kMostWaiting have sent nothing yet.
class TlsFilter {
 public:
  /// Takes a socket that begins a handshake; it is its own from now on.
  using Passed = std::function<void(int fd)>;
  /// Is told the address and port of one that has sent anything else, and was closed.
  using Refused = std::function<void(const std::string& peer)>;

  static constexpr std::size_t kMostWaiting = 4'096;

  TlsFilter(boost::asio::io_context& loop, Passed passed, Refused refused);
  ~TlsFilter();
  TlsFilter(const TlsFilter&) = delete;
  TlsFilter& operator=(const TlsFilter&) = delete;

  /// Takes a connected, non-blocking socket.
  void look(const boost::asio::ip::tcp& protocol, int fd);
  /// Closes those that wait.
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
  std::list<std::shared_ptr<Waiting>> waiting_;  ///< the oldest first; shared with its handlers
};

}  // namespace pfc
