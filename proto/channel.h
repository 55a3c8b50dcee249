// How every client of the coordinator connects to it.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace pfc {

/// A channel to host:port that connects when it is used, finds a dead peer within about 20 s and
/// tries again every 2 s at most. Proxies of the environment are not used.
std::shared_ptr<grpc::Channel> make_channel(const std::string& address);

/// The same for a server in this process: what it lets its clients do to find out that it is dead.
inline constexpr int kKeepaliveMilliseconds = 10'000;

}  // namespace pfc
