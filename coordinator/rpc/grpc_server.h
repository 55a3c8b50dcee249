// A gRPC server whose connections are accepted by this program.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "coordinator/access/gate.h"
#include "coordinator/sockets/listener.h"
#include "coordinator/sockets/pending_connections.h"
#include "coordinator/sockets/tls_filter.h"

namespace pfc {

/// Accepts connections itself, because gRPC's own listener would stop forever when no descriptor is
/// free. With TLS, passes a connection to gRPC once it has begun a handshake and there are not too
/// many unfinished handshakes. Used on the event loop only.
class GrpcServer {
 public:
  struct Options {
    std::string address;   ///< address to listen on
    int port = 0;          ///< 0: any free port
    Gate* gate = nullptr;  ///< not owned; null: plaintext
    PendingConnections::Limits pending;
    PendingConnections::Stalled stalled = [](const std::string&) {};
  };

  /// Listens. Throws InputError if the port cannot be used.
  GrpcServer(boost::asio::io_context& loop, const Options& options);

  [[nodiscard]] int port() const { return listener_.port(); }
  /// Unauthenticated connections; must be notified when a peer has authenticated.
  [[nodiscard]] PendingConnections& pending() { return pending_; }

  /// Starts to serve connections.
  void start(grpc::Service& service);
  /// Stops accepting.
  void close();
  /// Ends every call and waits until gRPC has finished. Blocks; may run on any thread.
  void shut_down();

 private:
  [[nodiscard]] std::shared_ptr<grpc::ServerCredentials> credentials() const;
  void accepted(Fd fd);
  void serve(Fd fd);
  void refuse(const std::string& peer, const char* reason, const std::string& why);

  Gate* const gate_;
  PendingConnections pending_;
  TlsFilter filter_;
  Listener listener_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace pfc
