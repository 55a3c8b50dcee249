#include "coordinator/web/http_connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "common/network_address.h"
#include "common/one_line.h"
#include "coordinator/web/http_guard.h"

namespace pfc {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::chrono::seconds kTimeout{10};      // limit to receive a request, and to send a reply
constexpr std::chrono::seconds kFeedTimeout{30};  // limit to send a piece of a feed
constexpr std::uint32_t kMaxHeader = 8 << 10;
constexpr std::uint64_t kMaxBody = 16 << 10;
// Time to discard input after a refusal. If a socket is closed with unread bytes, TCP resets the
// connection, and the client may never see the reply.
constexpr std::chrono::seconds kLinger{2};
constexpr std::size_t kMostDiscarded = std::size_t{1} << 20;

HttpReply failure(const std::exception& error) {
  return {.status = 500, .body = "this page cannot be created: " + one_line(error.what()) + "\n"};
}

/// Returns whether the received bytes are not an HTTP request.
bool is_malformed(beast::error_code error) {
  return error.category() == http::make_error_code(http::error::bad_version).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

std::string limit_text() { return "expected at most " + std::to_string(kMaxHeader) + " bytes\n"; }

HttpReply refusal_of(beast::error_code why, bool has_first_line) {
  if (why != http::error::header_limit) {
    return {.status = 400,
            .body = "this is not an HTTP request: " + one_line(why.message()) + "\n"};
  }
  return has_first_line
             ? HttpReply{.status = 431, .body = "the request's header is too long: " + limit_text()}
             : HttpReply{.status = 414, .body = "the request's path is too long: " + limit_text()};
}

/// Restricts what a browser may do with the page, which has only its own assets, no frames, and no
/// forms that are submitted.
template <typename Response>
void set_policies(Response& response) {
  response.set("Content-Security-Policy",
               "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
               "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Referrer-Policy", "no-referrer");
  response.set("Cross-Origin-Resource-Policy", "same-origin");
  response.set("Cross-Origin-Opener-Policy", "same-origin");
}

/// Returns a path that a browser does not mistake for another host, as in "//evil.example".
std::string own_path(const std::string& path) { return path.starts_with("//") ? "/" : path; }

/// Returns whether Prometheus reads this path.
bool is_for_monitoring(std::string_view path) {
  return path == "/metrics" || path == "/targets" || path == "/targets/hosts";
}

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

HttpSite pages_only(std::function<HttpReply(std::string_view)> pages) {
  return {
      .handler = [pages = std::move(pages)](const HttpRequest& request, const HttpAnswer& answer) {
        answer(pages(request.path));
      }};
}

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, const HttpSite& site,
                               const HttpSecurity& security, HttpSessions& sessions,
                               asio::ssl::context* tls)
    : stream_(std::move(socket)), site_(site), security_(security), sessions_(sessions) {
  if (tls != nullptr) tls_.emplace(stream_, *tls);
}

std::string HttpConnection::peer() const {
  beast::error_code error;
  const auto end = stream_.socket().remote_endpoint(error);
  if (error) return "unknown";
  return join_host_port(plain_address(end.address().to_string()), end.port());
}

void HttpConnection::start() {
  if (!tls_) return read();
  last_used_ = Clock::now();
  stream_.expires_after(kTimeout);
  tls_->async_handshake(asio::ssl::stream_base::server, [self = shared_from_this()](
                                                            beast::error_code error) {
    if (!error) return self->read();
    const bool is_other = error.category() == asio::error::get_ssl_category();
    if (is_other && self->security_.refused) {
      self->security_.refused({.peer = self->peer()}, "connect", "bad_handshake", error.message());
    }
  });
}

void HttpConnection::read() {
  last_used_ = Clock::now();
  version_ = 11;
  body_.reset();
  parser_.emplace();
  parser_->header_limit(kMaxHeader);
  parser_->body_limit(std::numeric_limits<std::uint64_t>::max());  // no body is read here
  stream_.expires_after(kTimeout);
  with_stream([this](auto& stream) {
    http::async_read_header(stream, buffer_, *parser_,
                            [self = shared_from_this()](beast::error_code error, std::size_t) {
                              self->received(error);
                            });
  });
}

void HttpConnection::received(beast::error_code error) {
  if (!error) return answer();
  if (is_malformed(error)) refuse(error);
}

std::string_view HttpConnection::header(std::string_view name) const {
  const auto found = parser_->get().find({name.data(), name.size()});
  return found == parser_->get().end() ? std::string_view() : view(found->value());
}

void HttpConnection::answer() {
  const auto& message = parser_->get();
  version_ = message.version();
  const std::string_view target = view(message.target());
  const std::size_t query = target.find('?');
  HttpRequest request{.post = message.method() == http::verb::post,
                      .path = std::string(target.substr(0, query)),
                      .query = std::string(query == target.npos ? "" : target.substr(query + 1)),
                      .if_none_match = std::string(header("If-None-Match")),
                      .scrape = !header("X-Prometheus-Scrape-Timeout-Seconds").empty(),
                      .caller = {.peer = peer(), .identity = {.role = Role::kAdmin}}};
  const bool head = message.method() == http::verb::head;
  if (const auto why = refusal(request)) return write(*why, head, false);
  if (request.post) return read_body(std::move(request));
  // With a body the connection must end: the body would be read as the next request.
  const bool bare = parser_->is_done();
  ask(request, head, bare && message.keep_alive());
}

std::optional<HttpReply> HttpConnection::refusal(HttpRequest& request) {
  const http::verb method = parser_->get().method();
  if (request.post ? !takes_post(request.path)
                   : method != http::verb::get && method != http::verb::head) {
    return HttpReply{.status = 405, .body = "only GET and HEAD are served here\n"};
  }
  if (request.path == "/healthz") return {};
  if (security_.loopback_only && !is_loopback_name(header("Host"))) {
    if (security_.refused) security_.refused(request.caller, "page", "foreign_name", "");
    return HttpReply{.status = 421,
                     .body =
                         "this server accepts only requests for localhost and 127.0.0.1, and this "
                         "one is for " +
                         one_line(header("Host"), 80) + " (docs/security.md)\n"};
  }
  if (security_.loopback_only && is_for_monitoring(request.path)) return {};
  if (security_.admits) {
    const std::string in_address = token_in(request.query);
    auto caller = security_.admits(in_address.empty() ? authorization() : "Bearer " + in_address,
                                   request.caller.peer);
    if (!caller) {
      return HttpReply{
          .status = 401,
          .body =
              "this page needs the token in security/reader.token or "
              "security/admin.token of the coordinator's --state-dir; send it as "
              "/?token=TOKEN, as \"Authorization: Bearer TOKEN\", or as the password of "
              "any user name (docs/security.md)\n"};
    }
    // Sets a cookie in place of the token, which would otherwise stay in the address bar.
    if (!in_address.empty() && !request.post) {
      return HttpReply{
          .status = 303, .location = own_path(request.path), .cookie = new_cookie(in_address)};
    }
    request.caller = *std::move(caller);
  }
  if (!request.post) return {};
  const auto why = why_foreign({.host = header("Host"),
                                .origin = header("Origin"),
                                .sec_fetch_site = header("Sec-Fetch-Site"),
                                .content_type = header("Content-Type"),
                                .request = header("X-Pfc-Request")},
                               tls_.has_value());
  if (!why) return {};
  if (security_.refused) security_.refused(request.caller, request.path, "foreign_page", *why);
  return HttpReply{.status = 403, .body = "this request is refused: " + *why + "\n"};
}

/// Browsers share cookies between ports, so the name contains the port.
std::string HttpConnection::cookie_name() const {
  beast::error_code error;
  return "pfc-" + std::to_string(stream_.socket().local_endpoint(error).port());
}

/// Does not contain the token, because browsers send a cookie to every port of the address.
std::string HttpConnection::new_cookie(const std::string& token) {
  return cookie_name() + "=" + sessions_.begin("Bearer " + token) +
         "; Path=/; HttpOnly; SameSite=Strict" + (tls_ ? "; Secure" : "");
}

/// Returns the header, or the value that belongs to the browser's cookie.
std::string HttpConnection::authorization() const {
  const std::string_view sent = header("Authorization");
  if (!sent.empty()) return std::string(sent);
  return sessions_.authorization(cookie_in(header("Cookie"), cookie_name()));
}

bool HttpConnection::takes_post(std::string_view path) const {
  return std::ranges::find(site_.post_paths, path) != site_.post_paths.end();
}

void HttpConnection::read_body(HttpRequest request) {
  const HttpReply too_long{.status = 413,
                           .body = "the request's body is too long: expected at most " +
                                   std::to_string(kMaxBody) + " bytes\n"};
  // The parser's limit applies only to chunks, because the header was parsed without a limit.
  const auto length = parser_->content_length();
  if (length && *length > kMaxBody) return write(too_long, false, false);
  body_.emplace(std::move(*parser_));
  body_->body_limit(kMaxBody);
  stream_.expires_after(kTimeout);
  with_stream([&](auto& stream) {
    http::async_read(stream, buffer_, *body_,
                     [self = shared_from_this(), request, too_long](beast::error_code error,
                                                                    std::size_t) mutable {
                       if (error == http::error::body_limit)
                         return self->write(too_long, false, false);
                       if (is_malformed(error))
                         return self->write(refusal_of(error, true), false, false);
                       if (error) return;
                       request.body = std::move(self->body_->get().body());
                       self->ask(request, false, self->body_->get().keep_alive());
                     });
  });
}

void HttpConnection::ask(const HttpRequest& request, bool head, bool keep_alive) {
  stream_.expires_never();  // the answer may have to wait for another machine
  const auto answer = [self = shared_from_this(), head, keep_alive](const HttpReply& reply) {
    if (reply.feed && !head) return self->begin_feed(reply.feed);
    self->write(reply, head, keep_alive && reply.feed == nullptr);
  };
  try {
    site_.handler(request, answer);
  } catch (const std::exception& error) {
    answer(failure(error));
  }
}

void HttpConnection::refuse(beast::error_code why) {
  // The parser consumes the first line from the buffer if it arrives in one piece.
  const auto left = buffer_.cdata();
  const std::string_view text(static_cast<const char*>(left.data()), left.size());
  const bool has_first_line =
      !parser_->get().target().empty() || text.substr(0, kMaxHeader).find('\n') != text.npos;
  write(refusal_of(why, has_first_line), false, false);
}

void HttpConnection::set_header(const HttpReply& reply) {
  response_ = {static_cast<http::status>(reply.status), version_};
  response_.set(http::field::content_type, reply.content_type);
  // Cached only for revalidation, so that different versions are never mixed.
  response_.set(http::field::cache_control, reply.etag.empty() ? "no-store" : "no-cache");
  if (!reply.etag.empty()) response_.set(http::field::etag, reply.etag);
  set_policies(response_);
  if (reply.status == 405) response_.set(http::field::allow, "GET, HEAD");
  if (!reply.location.empty()) response_.set(http::field::location, reply.location);
  if (!reply.cookie.empty()) response_.set(http::field::set_cookie, reply.cookie);
  if (reply.status == 401) {
    response_.insert(http::field::www_authenticate, "Bearer realm=\"pfc\"");
    response_.insert(http::field::www_authenticate, "Basic realm=\"pfc\"");
  }
}

void HttpConnection::write(const HttpReply& reply, bool head_only, bool keep_alive) {
  set_header(reply);
  response_.keep_alive(keep_alive);
  response_.body() = reply.body;
  response_.prepare_payload();
  if (head_only) response_.body().clear();
  stream_.expires_after(kTimeout);
  with_stream([this](auto& stream) {
    http::async_write(stream, response_,
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                        if (error) return;
                        if (self->response_.keep_alive()) return self->read();
                        self->finish();
                      });
  });
}

void HttpConnection::begin_feed(const std::shared_ptr<HttpFeed>& pieces) {
  set_header({.content_type = "text/event-stream"});
  response_.keep_alive(false);  // length unknown: ends with the connection
  header_.emplace(response_);
  stream_.expires_after(kTimeout);
  with_stream([&](auto& stream) {
    http::async_write_header(
        stream, *header_,
        [self = shared_from_this(), pieces](beast::error_code error, std::size_t) {
          if (error) return;
          self->watch_reader(pieces);
          self->feed(pieces);
        });
  });
}

void HttpConnection::watch_reader(const std::shared_ptr<HttpFeed>& pieces) {
  buffer_.clear();
  stream_.expires_never();
  const auto space = buffer_.prepare(kMaxHeader);
  with_stream([&](auto& stream) {
    stream.async_read_some(space, [self = shared_from_this(), weak = std::weak_ptr(pieces)](
                                      beast::error_code error, std::size_t count) {
      const auto same = weak.lock();
      const bool goes_on = !error && (self->discarded_ += count) <= kMostDiscarded;
      if (same && goes_on) return self->watch_reader(same);
      if (same) same->when_ready(nullptr);
      self->close();
    });
  });
}

void HttpConnection::feed(const std::shared_ptr<HttpFeed>& pieces) {
  last_used_ = Clock::now();
  const auto piece = pieces->next();
  if (piece == nullptr) {
    // Until the next piece, only the feed keeps this connection alive.
    return pieces->when_ready([self = shared_from_this(), weak = std::weak_ptr(pieces)] {
      if (const auto same = weak.lock()) self->feed(same);
    });
  }
  stream_.expires_after(kFeedTimeout);
  with_stream([&](auto& stream) {
    asio::async_write(
        stream, asio::buffer(*piece),
        [self = shared_from_this(), pieces, piece](beast::error_code error, std::size_t) {
          if (!error) self->feed(pieces);
        });
  });
}

void HttpConnection::finish() {
  stream_.expires_after(kLinger);
  const auto closed = [self = shared_from_this()] {
    beast::error_code ignored;
    self->stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    self->linger();
  };
  if (!tls_) return closed();
  // Waits for the peer's reply, or for the timeout.
  tls_->async_shutdown([closed](beast::error_code) { closed(); });
}

void HttpConnection::linger() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(kMaxHeader),
                          [self = shared_from_this()](beast::error_code error, std::size_t count) {
                            if (error || (self->discarded_ += count) > kMostDiscarded)
                              return self->close();
                            self->linger();
                          });
}

}  // namespace pfc
