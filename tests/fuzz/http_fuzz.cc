// The HTTP server: the bytes of one client, over a pair of connected sockets.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "coordinator/web/http_connection.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

pfc::HttpReply page(std::string_view path) {
  if (path == "/throws") throw std::runtime_error("no such page");
  return {.body = std::string(path)};
}

}  // namespace

std::vector<std::string> pfc::fuzz::seeds() {
  return {
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\n",
      "HEAD /status?x=1 HTTP/1.0\r\n\r\n",
      "POST /throws HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
      "GET /throws HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
      "POST /api HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:1\r\nX-Pfc-Request: "
      "1\r\n"
      "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
      "GET / HTTP/1.1\r\nAuthorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l\r\nExpect: "
      "100-continue\r\n\r\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static boost::asio::io_context loop(1);
  static const pfc::HttpSite site{.handler = pages_only(page).handler, .post_paths = {"/api"}};
  static const pfc::HttpSecurity security{
      .admits = [](std::string_view authorization,
                   const std::string&) -> std::optional<pfc::Caller> {
        if (!authorization.empty() && !authorization.starts_with("Basic")) return {};
        return pfc::Caller{};
      },
      .loopback_only = true};
  pfc::HttpSessions sessions;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) __builtin_trap();
  std::weak_ptr<pfc::HttpConnection> connection;
  {
    const auto served = std::make_shared<pfc::HttpConnection>(
        boost::asio::ip::tcp::socket(loop, boost::asio::ip::tcp::v4(), ends[0]), site, security,
        sessions, nullptr);
    served->start();
    connection = served;
  }
  // Smaller than a socket's buffer, so the client needs no thread of its own.
  const std::size_t sent = std::min<std::size_t>(size, 64 << 10);
  if (send(ends[1], data, sent, MSG_NOSIGNAL) != static_cast<ssize_t>(sent)) __builtin_trap();
  shutdown(ends[1], SHUT_WR);
  char reply[4096];
  while (!connection.expired()) {
    loop.restart();
    loop.run_one();
    while (recv(ends[1], reply, sizeof(reply), MSG_DONTWAIT) > 0) {
    }
  }
  close(ends[1]);
  return 0;
}
