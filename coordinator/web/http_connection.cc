#include "coordinator/web/http_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "common/network_address.h"
#include "common/one_line.h"

namespace pfc {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::chrono::seconds kTimeout{10};  // for a request to arrive, and a reply to leave
constexpr std::uint32_t kMaxHeader = 8 << 10;
// After a refusal. Where unread bytes are left when a socket is closed, TCP tells the client that
// the connection is broken, and the client may never see the answer.
constexpr std::chrono::seconds kLinger{2};
constexpr std::size_t kMostDiscarded = std::size_t{1} << 20;

HttpReply failure(const std::exception& error) {
  return {.status = 500, .body = "this page could not be made: " + one_line(error.what()) + "\n"};
}

/// Whether something was read that is no request.
bool is_malformed(beast::error_code error) {
  return error.category() == http::make_error_code(http::error::bad_version).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

std::string limit_text() { return "expected at most " + std::to_string(kMaxHeader) + " bytes\n"; }

HttpReply refusal_of(beast::error_code why, bool has_first_line) {
  if (why != http::error::header_limit) {
    return {.status = 400, .body = "this is no HTTP request: " + one_line(why.message()) + "\n"};
  }
  return has_first_line
             ? HttpReply{.status = 431, .body = "the request's header is too long: " + limit_text()}
             : HttpReply{.status = 414, .body = "the request's path is too long: " + limit_text()};
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, const HttpHandler& handler,
                               const HttpSecurity& security, asio::ssl::context* tls)
    : stream_(std::move(socket)), handler_(handler), security_(security) {
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
  tls_->async_handshake(asio::ssl::stream_base::server,
                        [self = shared_from_this()](beast::error_code error) {
                          if (!error) return self->read();
                          const bool is_other = error.category() == asio::error::get_ssl_category();
                          if (is_other && self->security_.failed) {
                            self->security_.failed(self->peer(), error.message());
                          }
                        });
}

void HttpConnection::read() {
  last_used_ = Clock::now();
  parser_.emplace();
  parser_->header_limit(kMaxHeader);
  parser_->body_limit(std::numeric_limits<std::uint64_t>::max());  // none is read
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

void HttpConnection::answer() {
  const auto& request = parser_->get();
  const bool head = request.method() == http::verb::head;
  if (!head && request.method() != http::verb::get) {
    return write({.status = 405, .body = "only GET and HEAD are served here\n"}, false, false);
  }
  const std::string_view target(request.target().data(), request.target().size());
  const std::string_view path = target.substr(0, target.find('?'));
  if (!may_see(path)) {
    return write({.status = 401,
                  .body = "this page needs the read-only token, as \"Authorization: Bearer TOKEN\" "
                          "or as the password (docs/security.md)\n"},
                 head, false);
  }
  const bool bare = parser_->is_done();  // a body would be read as the next request
  write(page(path), head, bare && request.keep_alive());
}

bool HttpConnection::may_see(std::string_view path) const {
  if (!security_.admits || path == "/healthz") return true;
  const auto header = parser_->get().find(http::field::authorization);
  if (header == parser_->get().end()) return security_.admits({}, peer());
  return security_.admits({header->value().data(), header->value().size()}, peer());
}

void HttpConnection::refuse(beast::error_code why) {
  // The parser takes the first line from the buffer when that comes in one piece.
  const auto left = buffer_.cdata();
  const std::string_view text(static_cast<const char*>(left.data()), left.size());
  const bool has_first_line =
      !parser_->get().target().empty() || text.substr(0, kMaxHeader).find('\n') != text.npos;
  write(refusal_of(why, has_first_line), false, false);
}

HttpReply HttpConnection::page(std::string_view path) const {
  try {
    return handler_(path);
  } catch (const std::exception& error) {
    return failure(error);
  }
}

void HttpConnection::write(const HttpReply& reply, bool head_only, bool keep_alive) {
  const bool read_it = parser_->is_header_done();
  response_ = {static_cast<http::status>(reply.status),
               read_it ? parser_->get().version() : 11};  // HTTP/1.1
  response_.set(http::field::content_type, reply.content_type);
  response_.set(http::field::cache_control, "no-store");
  if (reply.status == 405) response_.set(http::field::allow, "GET, HEAD");
  if (reply.status == 401) {
    response_.insert(http::field::www_authenticate, "Bearer realm=\"pfc\"");
    response_.insert(http::field::www_authenticate, "Basic realm=\"pfc\"");
  }
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

void HttpConnection::finish() {
  stream_.expires_after(kLinger);
  const auto closed = [self = shared_from_this()] {
    beast::error_code ignored;
    self->stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    self->linger();
  };
  if (!tls_) return closed();
  // It waits for the other side's answer too: where none comes, until the time is over.
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
