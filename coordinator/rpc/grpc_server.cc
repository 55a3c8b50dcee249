#include "coordinator/rpc/grpc_server.h"

#include <chrono>
#include <stdexcept>
#include <utility>

#include "coordinator/access/peer_limits.h"
#include "proto/channel.h"
#include "proto/grpc_runtime.h"

namespace pfc {
namespace {

constexpr int kHandshakeMilliseconds = 10'000;
constexpr int kIdleMilliseconds = 30'000;
constexpr int kDescriptorsForOwnFiles = 4;  // reserved for the coordinator's own files
constexpr std::chrono::seconds kLastCalls{2};

void set_arguments(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kClientKeepaliveMilliseconds / 2);
  // No limit: after an outage, delayed pings arrive together.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kServerKeepaliveMilliseconds);
  // Otherwise gRPC probes the bandwidth after every message, which is useless on this quiet link.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kServerKeepaliveMilliseconds);
  // An idle connection holds a descriptor. Agents and workers always have an open call.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostConcurrentCalls);
  builder.SetMaxReceiveMessageSize(kMostMessageBytes);
}

}  // namespace

GrpcServer::GrpcServer(boost::asio::io_context& loop, const Options& options)
    : gate_(options.gate),
      pending_(
          loop, options.pending, [this](Fd fd) { serve(std::move(fd)); },
          [this](const std::string& peer, const std::string& why) {
            refuse(peer, "slow_handshake", why);
          },
          options.stalled),
      filter_(
          loop, [this](Fd fd) { pending_.add(std::move(fd)); },
          [this](const std::string& peer) {
            refuse(peer, "plaintext", "the connection was not TLS");
          }),
      listener_(loop,
                {.address = options.address,
                 .port = options.port,
                 .flag = "--port",
                 .held_back = kDescriptorsForOwnFiles},
                [this](Fd fd) { accepted(std::move(fd)); }) {}

void GrpcServer::start(grpc::Service& service) {
  set_up_grpc();
  grpc::ServerBuilder builder;
  set_arguments(builder);
  connections_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials());
  builder.RegisterService(&service);
  server_ = builder.BuildAndStart();
  if (!server_) throw std::runtime_error("gRPC cannot start its server");
}

std::shared_ptr<grpc::ServerCredentials> GrpcServer::credentials() const {
  if (gate_ == nullptr) return grpc::InsecureServerCredentials();
  const Credential& own = gate_->server();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = own.authority;
  options.pem_key_cert_pairs = {{.private_key = own.key, .cert_chain = own.certificate}};
  return grpc::SslServerCredentials(options);
}

void GrpcServer::accepted(Fd fd) {
  if (gate_ == nullptr) return serve(std::move(fd));
  filter_.look(listener_.protocol(), std::move(fd));
}

void GrpcServer::serve(Fd fd) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = fd.release();
  connections_->HandleNewConnection(&connection);
}

void GrpcServer::refuse(const std::string& peer, const char* reason, const std::string& why) {
  static_cast<void>(gate_->refuse({.peer = peer}, "connect", reason, why));
}

void GrpcServer::close() {
  listener_.close();
  filter_.close();
  pending_.close();
}

void GrpcServer::shut_down() {
  server_->Shutdown(std::chrono::system_clock::now() + kLastCalls);
  server_->Wait();
}

}  // namespace pfc
