#include "coordinator/web/http_server.h"

#include <unistd.h>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "common/clock.h"
#include "common/one_line.h"

namespace pfc {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::chrono::seconds kTimeout{10};  // for a request to arrive, and a reply to leave
constexpr std::uint32_t kMaxHeader = 8 << 10;
constexpr std::size_t kMostConnections = 64;
// For the calls of agents, workers and pfcctl, and the coordinator's own files.
constexpr int kHeldBack = 16;

HttpReply failure(const std::exception& error) {
  return {.status = 500, .body = "this page could not be made: " + one_line(error.what()) + "\n"};
}

}  // namespace

/// One connection: kept alive by the operation that is under way.
class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::ip::tcp::socket socket, const HttpServer::Handler& handler)
      : stream_(std::move(socket)), handler_(handler) {}

  void read() {
    last_used_ = Clock::now();
    parser_.emplace();
    parser_->header_limit(kMaxHeader);
    parser_->body_limit(std::uint64_t{0});
    stream_.expires_after(kTimeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       if (!error) self->answer();
                     });
  }

  void close() { stream_.close(); }
  /// When it has begun to wait for a request.
  [[nodiscard]] TimePoint last_used() const { return last_used_; }

 private:
  void answer() {
    const auto& request = parser_->get();
    const std::string_view target(request.target().data(), request.target().size());
    const HttpReply reply = reply_to(request.method(), target.substr(0, target.find('?')));
    response_ = {static_cast<http::status>(reply.status), request.version()};
    response_.set(http::field::content_type, reply.content_type);
    response_.set(http::field::cache_control, "no-store");
    response_.keep_alive(request.keep_alive());
    response_.body() = reply.body;
    response_.prepare_payload();
    if (request.method() == http::verb::head) response_.body().clear();
    stream_.expires_after(kTimeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                        if (!error && self->response_.keep_alive()) self->read();
                      });
  }

  [[nodiscard]] HttpReply reply_to(http::verb method, std::string_view path) const {
    if (method != http::verb::get && method != http::verb::head) {
      return {.status = 405, .body = "only GET is served here\n"};
    }
    try {
      return handler_(path);
    } catch (const std::exception& error) {
      return failure(error);
    }
  }

  beast::tcp_stream stream_;
  const HttpServer::Handler& handler_;  // the server outlives the loop's last run
  TimePoint last_used_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
};

HttpServer::HttpServer(asio::io_context& loop, const std::string& address, int port,
                       Handler handler)
    : loop_(loop),
      handler_(std::move(handler)),
      listener_(loop,
                {.address = address, .port = port, .flag = "--http-port", .held_back = kHeldBack},
                [this](int fd) { serve(fd); }) {}

void HttpServer::serve(int fd) {
  asio::ip::tcp::socket socket(loop_);
  boost::system::error_code error;
  socket.assign(listener_.protocol(), fd, error);
  if (error) {
    ::close(fd);
    return;
  }
  make_room();
  const auto connection = std::make_shared<Connection>(std::move(socket), handler_);
  connections_.push_back(connection);
  connection->read();
}

/// Closes the connection that has waited longest for a request when there are as many as may be.
void HttpServer::make_room() {
  std::erase_if(connections_, [](const auto& each) { return each.expired(); });
  if (connections_.size() < kMostConnections) return;
  std::shared_ptr<Connection> oldest;
  for (const auto& each : connections_) {
    const auto connection = each.lock();
    if (connection == nullptr) continue;
    if (oldest == nullptr || connection->last_used() < oldest->last_used()) oldest = connection;
  }
  if (oldest != nullptr) oldest->close();
}

}  // namespace pfc
