// One HTTP/1.1 connection: it reads requests, answers each, and ends by itself.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <memory>
#include <optional>

#include "common/clock.h"
#include "coordinator/web/http_reply.h"
#include "coordinator/web/http_security.h"

namespace pfc {

/// Used on the event loop only; kept alive by the operation that is under way. GET and HEAD are
/// served. Other methods are answered with 405, a request line or header that is too long with 414
/// or 431, and what is no HTTP with 400; then the connection is closed. A body is never read. Who
/// may not see pages is answered with 401.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  /// Borrows all but the socket: it must outlive the loop's last run. `tls`: null for plaintext.
  HttpConnection(boost::asio::ip::tcp::socket socket, const HttpHandler& handler,
                 const HttpSecurity& security, boost::asio::ssl::context* tls);

  /// Shakes hands where there is TLS, and waits for a request.
  void start();
  void close() { stream_.close(); }
  /// When it has begun to wait for a request.
  [[nodiscard]] TimePoint last_used() const { return last_used_; }

 private:
  void read();
  /// Calls `use` with the stream that requests are read from.
  template <typename Use>
  void with_stream(Use use) {
    tls_ ? use(*tls_) : use(stream_);
  }
  /// Sends what says that no more comes, and closes once the other side has.
  void finish();
  [[nodiscard]] std::string peer() const;
  [[nodiscard]] bool may_see(std::string_view path) const;
  void received(boost::beast::error_code error);
  void answer();
  /// Answers a request that could not be read, and closes.
  void refuse(boost::beast::error_code why);
  void write(const HttpReply& reply, bool head_only, bool keep_alive);
  /// Reads a little of what still comes, so that the answer is not lost, and closes.
  void linger();
  [[nodiscard]] HttpReply page(std::string_view path) const;

  boost::beast::tcp_stream stream_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;  ///< over stream_
  const HttpHandler& handler_;
  const HttpSecurity& security_;
  TimePoint last_used_;
  std::size_t discarded_ = 0;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::empty_body>> parser_;
  boost::beast::http::response<boost::beast::http::string_body> response_;
};

}  // namespace pfc
