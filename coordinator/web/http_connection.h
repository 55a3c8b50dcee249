// An HTTP/1.1 connection: reads requests, answers each, and closes itself.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <memory>
#include <optional>

#include "common/clock.h"
#include "coordinator/web/http_request.h"
#include "coordinator/web/http_security.h"

namespace pfc {

/// Used on the event loop only; kept alive by the pending operation. Serves GET and HEAD, and POST
/// on HttpSite::post_paths, with a body of up to 16 KiB. Replies and then closes: 405 for other
/// methods, 414 or 431 for a long request line or header, 413 for a long body, 400 for anything
/// but HTTP. Never reads the body of a GET. Replies 401 to callers who may not see pages, 403 to a
/// POST from another site's page, and 421 to a request for another host name.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  /// Owns only the socket; the rest must outlive the loop's last run. `tls`: null for plaintext.
  HttpConnection(boost::asio::ip::tcp::socket socket, const HttpSite& site,
                 const HttpSecurity& security, HttpSessions& sessions,
                 boost::asio::ssl::context* tls);

  /// Completes the TLS handshake, if any, and waits for a request.
  void start();
  void close() { stream_.close(); }
  /// Returns when the connection last began to wait for a request, or when its reader last accepted
  /// a piece of a feed.
  [[nodiscard]] TimePoint last_used() const { return last_used_; }

 private:
  using HeaderParser = boost::beast::http::request_parser<boost::beast::http::empty_body>;
  using BodyParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void read();
  /// Calls `use` with the stream that requests are read from.
  template <typename Use>
  void with_stream(Use use) {
    tls_ ? use(*tls_) : use(stream_);
  }
  /// Shuts down the sending side, and closes after the peer has.
  void finish();
  [[nodiscard]] std::string peer() const;
  /// Returns a header field of the request; empty if absent.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  void received(boost::beast::error_code error);
  void answer();
  /// Returns why the request is refused before its body is read, or nothing. Sets the caller.
  std::optional<HttpReply> refusal(HttpRequest& request);
  [[nodiscard]] bool takes_post(std::string_view path) const;
  [[nodiscard]] std::string cookie_name() const;
  std::string new_cookie(const std::string& token);
  [[nodiscard]] std::string authorization() const;
  void read_body(HttpRequest request);
  /// Passes the request to the site.
  void ask(const HttpRequest& request, bool head, bool keep_alive);
  /// Replies to a request that could not be parsed, and closes.
  void refuse(boost::beast::error_code why);
  void write(const HttpReply& reply, bool head_only, bool keep_alive);
  void set_header(const HttpReply& reply);
  /// Sends the feed's header, then each of its pieces.
  void begin_feed(const std::shared_ptr<HttpFeed>& feed);
  void feed(const std::shared_ptr<HttpFeed>& feed);
  /// Detects that the reader of a feed has disconnected, and frees its slot immediately. Discards
  /// data from the reader.
  void watch_reader(const std::shared_ptr<HttpFeed>& feed);
  /// Discards some further input before closing, so that the reply is not lost.
  void linger();

  boost::beast::tcp_stream stream_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;  ///< uses stream_
  const HttpSite& site_;
  const HttpSecurity& security_;
  HttpSessions& sessions_;
  TimePoint last_used_;
  std::size_t discarded_ = 0;
  boost::beast::flat_buffer buffer_;
  std::optional<HeaderParser> parser_;
  std::optional<BodyParser> body_;  ///< reads a POST; then has its header too
  unsigned version_ = 11;           ///< HTTP version of the request: 1.1
  boost::beast::http::response<boost::beast::http::string_body> response_;
  std::optional<boost::beast::http::response_serializer<boost::beast::http::string_body>> header_;
};

}  // namespace pfc
