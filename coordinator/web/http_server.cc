#include "coordinator/web/http_server.h"

#include <algorithm>
#include <boost/asio/ssl.hpp>
#include <memory>
#include <utility>

#include "coordinator/web/http_connection.h"

namespace pfc {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kMostConnections = 64;
// For the calls of agents, workers and pfcctl, and the coordinator's own files.
constexpr int kDescriptorsForOthers = 16;

/// Allows TLS 1.2 and 1.3, without session resumption. Returns nothing without a key.
std::optional<asio::ssl::context> tls_context(const Credential& server) {
  if (!server.secure()) return {};
  std::optional<asio::ssl::context> tls(std::in_place, asio::ssl::context::tls_server);
  tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                   asio::ssl::context::no_tlsv1_1);
  SSL_CTX_set_session_cache_mode(tls->native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(tls->native_handle(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  tls->use_certificate_chain(asio::buffer(server.certificate));
  tls->use_private_key(asio::buffer(server.key), asio::ssl::context::pem);
  return tls;
}

}  // namespace

HttpServer::HttpServer(asio::io_context& loop, const std::string& address, int port, HttpSite site,
                       HttpSecurity security)
    : loop_(loop),
      site_(std::move(site)),
      security_(std::move(security)),
      tls_(tls_context(security_.server)),
      listener_(loop,
                {.address = address,
                 .port = port,
                 .flag = "--http-port",
                 .held_back = kDescriptorsForOthers},
                [this](Fd fd) { serve(std::move(fd)); }) {}

void HttpServer::serve(Fd fd) {
  asio::ip::tcp::socket socket(loop_);
  boost::system::error_code error;
  socket.assign(listener_.protocol(), fd, error);
  if (error) return;
  fd.release();
  make_room();
  const auto connection = std::make_shared<HttpConnection>(std::move(socket), site_, security_,
                                                           sessions_, tls_ ? &*tls_ : nullptr);
  connections_.push_back(connection);
  connection->start();
}

/// If the limit is reached, closes the connection that has waited longest for a request.
void HttpServer::make_room() {
  std::erase_if(connections_, [](const auto& each) { return each.expired(); });
  if (connections_.size() < kMostConnections) return;
  const auto oldest = std::ranges::min_element(
      connections_, {}, [](const auto& each) { return each.lock()->last_used(); });
  oldest->lock()->close();
  connections_.erase(oldest);  // it lives until its handlers have run
}

}  // namespace pfc
