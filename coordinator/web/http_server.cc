#include "coordinator/web/http_server.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "common/error.h"
#include "coordinator/listening.h"

namespace pfc {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::chrono::seconds kTimeout{10};  // for a request to arrive, and a reply to leave
constexpr std::uint32_t kMaxHeader = 8 << 10;

/// One connection: kept alive by the operation that is under way.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::ip::tcp::socket socket, const HttpServer::Handler& handler)
      : stream_(std::move(socket)), handler_(handler) {}

  void read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeader);
    parser_->body_limit(std::uint64_t{0});
    stream_.expires_after(kTimeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       if (!error) self->answer();
                     });
  }

 private:
  void answer() {
    const auto& request = parser_->get();
    const bool get = request.method() == http::verb::get || request.method() == http::verb::head;
    const std::string_view target(request.target().data(), request.target().size());
    const HttpReply reply = get ? handler_(target.substr(0, target.find('?')))
                                : HttpReply{.status = 405, .body = "only GET is served here\n"};
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

  beast::tcp_stream stream_;
  const HttpServer::Handler& handler_;  // the server outlives the loop's last run
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
};

}  // namespace

HttpServer::HttpServer(asio::io_context& loop, const std::string& address, int port,
                       Handler handler)
    : acceptor_(loop), handler_(std::move(handler)) {
  const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(address),
                                         static_cast<unsigned short>(port));
  try {
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(asio::socket_base::reuse_address(true));  // only past TIME_WAIT, on Linux
    acceptor_.bind(endpoint);
    acceptor_.listen();
  } catch (const boost::system::system_error& error) {
    throw InputError(cannot_listen(address, port, error.code().value(), "--http-port"));
  }
  accept();
}

void HttpServer::accept() {
  acceptor_.async_accept([this](beast::error_code error, asio::ip::tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) std::make_shared<Connection>(std::move(socket), handler_)->read();
    accept();
  });
}

}  // namespace pfc
