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
#include "coordinator/web/http_request.h"
#include "coordinator/web/http_security.h"

namespace pfc {

/// Used on the event loop only; kept alive by the operation that is under way. GET and HEAD are
/// served, and POST of the site's paths for it, with a body of at most 16 KiB. Other methods are
/// answered with 405, a request line or header that is too long with 414 or 431, a body with 413,
/// and what is no HTTP with 400; then the connection is closed. The body of a GET is never read.
/// Who may not see pages is answered with 401, a POST of another site's page with 403, and a
/// request to another name than this machine's with 421.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  /// Borrows all but the socket: it must outlive the loop's last run. `tls`: null for plaintext.
  HttpConnection(boost::asio::ip::tcp::socket socket, const HttpSite& site,
                 const HttpSecurity& security, HttpSessions& sessions,
                 boost::asio::ssl::context* tls);

  /// Shakes hands where there is TLS, and waits for a request.
  void start();
  void close() { stream_.close(); }
  /// When it has begun to wait for a request, or its reader has taken a piece of a feed.
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
  /// Sends what says that no more comes, and closes once the other side has.
  void finish();
  [[nodiscard]] std::string peer() const;
  /// Of the request's header; empty: it was not sent.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  void received(boost::beast::error_code error);
  void answer();
  /// Why the request is refused before its body is read; none: it is not. Fills in who sends it.
  std::optional<HttpReply> refusal(HttpRequest& request);
  [[nodiscard]] bool takes_post(std::string_view path) const;
  [[nodiscard]] std::string cookie_name() const;
  std::string new_cookie(const std::string& token);
  [[nodiscard]] std::string authorization() const;
  void read_body(HttpRequest request);
  /// Asks the site.
  void ask(const HttpRequest& request, bool head, bool keep_alive);
  /// Answers a request that could not be read, and closes.
  void refuse(boost::beast::error_code why);
  void write(const HttpReply& reply, bool head_only, bool keep_alive);
  void set_header(const HttpReply& reply);
  /// Sends the feed's header, and then each of its pieces.
  void begin_feed(const std::shared_ptr<HttpFeed>& feed);
  void feed(const std::shared_ptr<HttpFeed>& feed);
  /// Detects that the reader of a feed disconnects, and frees its place at once. Discards data from
  /// the reader.
  void watch_reader(const std::shared_ptr<HttpFeed>& feed);
  /// Reads a little of what still comes, so that the answer is not lost, and closes.
  void linger();

  boost::beast::tcp_stream stream_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;  ///< over stream_
  const HttpSite& site_;
  const HttpSecurity& security_;
  HttpSessions& sessions_;
  TimePoint last_used_;
  std::size_t discarded_ = 0;
  boost::beast::flat_buffer buffer_;
  std::optional<HeaderParser> parser_;
  std::optional<BodyParser> body_;  ///< of a POST that is being read; it has the header then
  unsigned version_ = 11;           ///< of the request: HTTP/1.1
  boost::beast::http::response<boost::beast::http::string_body> response_;
  std::optional<boost::beast::http::response_serializer<boost::beast::http::string_body>> header_;
};

}  // namespace pfc
