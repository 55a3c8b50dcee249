// The gRPC connection of agents, workers and pfcctl to the coordinator.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace pfc {

/// A channel to host:port. It connects when it is used first, notices a dead peer within about 20
/// s, and tries to reconnect at least every 2 s. It ignores http_proxy and the like.
std::shared_ptr<grpc::Channel> make_channel(const std::string& address);

/// How often both sides check an idle connection. A server must allow its clients to do so.
inline constexpr int kKeepaliveMilliseconds = 10'000;

}  // namespace pfc
