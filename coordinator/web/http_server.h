// A small HTTP/1.1 server for the page at /, Prometheus and health checks. Limits the size and
// duration of requests.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/sockets/listener.h"
#include "coordinator/web/http_request.h"
#include "coordinator/web/http_security.h"

namespace pfc {

class HttpConnection;

/// Used on the event loop only. Serves up to 64 connections; a new one replaces the one that has
/// waited longest for a request.
class HttpServer {
 public:
  /// Listens on address:port (port 0: any free port). Throws InputError if the port is in use.
  HttpServer(boost::asio::io_context& loop, const std::string& address, int port, HttpSite site,
             HttpSecurity security = {});
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] int port() const { return listener_.port(); }

 private:
  void serve(Fd fd);
  void make_room();

  boost::asio::io_context& loop_;
  const HttpSite site_;
  const HttpSecurity security_;
  HttpSessions sessions_;
  std::optional<boost::asio::ssl::context> tls_;
  std::vector<std::weak_ptr<HttpConnection>> connections_;
  Listener listener_;
};

}  // namespace pfc
