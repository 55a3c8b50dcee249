// A small HTTP/1.1 server for the status page, Prometheus and health checks. It serves GET and
// HEAD, and limits the size and the time of every request.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <string>
#include <string_view>

namespace pfc {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// Used on the event loop only.
class HttpServer {
 public:
  using Handler = std::function<HttpReply(std::string_view path)>;

  /// Listens on address:port (port 0: a free one). Throws InputError when the port is in use.
  HttpServer(boost::asio::io_context& loop, const std::string& address, int port, Handler handler);

  [[nodiscard]] int port() const { return acceptor_.local_endpoint().port(); }

 private:
  void accept();

  boost::asio::ip::tcp::acceptor acceptor_;
  const Handler handler_;
};

}  // namespace pfc
