// A small HTTP/1.1 server for the status page, Prometheus and health checks. It serves GET and
// HEAD, and limits the size and the time of every request.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/net/listener.h"

namespace pfc {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// Used on the event loop only. It serves at most 64 connections; for another one it closes the one
/// that has waited longest for a request. A handler that throws gives the reply 500.
class HttpServer {
 public:
  using Handler = std::function<HttpReply(std::string_view path)>;

  /// Listens on address:port (port 0: a free one). Throws InputError when the port is in use.
  HttpServer(boost::asio::io_context& loop, const std::string& address, int port, Handler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] int port() const { return listener_.port(); }

 private:
  class Connection;

  void serve(int fd);
  void make_room();

  boost::asio::io_context& loop_;
  const Handler handler_;
  std::vector<std::weak_ptr<Connection>> connections_;
  Listener listener_;
};

}  // namespace pfc
