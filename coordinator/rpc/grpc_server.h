// gRPC's server on a port of which this program accepts the connections itself.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "coordinator/access/gate.h"
#include "coordinator/net/listener.h"
#include "coordinator/net/newcomers.h"
#include "coordinator/net/tls_filter.h"

namespace pfc {

/// gRPC's own listener would stop for ever when no descriptor is left for a connection. Over TLS a
/// connection comes to gRPC when it has begun a handshake, and not too many others are at theirs.
/// Used on the event loop only.
class GrpcServer {
 public:
  struct Options {
    std::string address;   ///< that it listens on
    int port = 0;          ///< 0: a free one
    Gate* gate = nullptr;  ///< borrowed; null: plaintext
    Newcomers::Limits newcomers;
    Newcomers::Stalled stalled = [](const std::string&) {};
  };

  /// Listens. Throws InputError when the port cannot be used.
  GrpcServer(boost::asio::io_context& loop, const Options& options);

  [[nodiscard]] int port() const { return listener_.port(); }
  /// Those who have not shown a credential yet; told of those who have.
  [[nodiscard]] Newcomers& newcomers() { return newcomers_; }

  /// Serves what connects from now on.
  void start(grpc::Service& service);
  /// Accepts nothing from now on.
  void close();
  /// Ends every call, and returns when gRPC has done with all. Blocks; on any thread.
  void shut_down();

 private:
  [[nodiscard]] std::shared_ptr<grpc::ServerCredentials> credentials() const;
  void accepted(int fd);
  void serve(int fd);
  void refuse(const std::string& peer, const char* reason, const std::string& why);

  Gate* const gate_;
  Newcomers newcomers_;
  TlsFilter filter_;
  Listener listener_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace pfc
