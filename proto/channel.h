// gRPC channel of agents, workers and pfcctl to the coordinator.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "security/credential.h"

namespace pfc {

/// Returns a channel to host:port. Without a credential it uses plaintext. Otherwise it uses TLS
/// and accepts only a coordinator whose certificate is signed by the credential's authority, at any
/// address. The channel connects on first use and ignores http_proxy. If the peer does not answer
/// for about 4 s, the channel opens a new connection. On the old one, TCP might wait for as long as
/// the outage has lasted before it retransmits.
std::shared_ptr<grpc::Channel> make_channel(const std::string& address,
                                            const Credential& credential = {});

/// Returns gRPC's message for a failed call, with advice if a TLS handshake has stalled.
std::string problem_of(const grpc::Status& status);

/// Connects, with retries, for up to `time`. Returns whether the channel is connected. Callers
/// that wait for a coordinator to come back MUST use this function, because gRPC's own backoff
/// grows, and gRPC hardly retries while no call waits for the channel. Stops early if `ended`,
/// called several times a second, returns true.
bool wait_for_connection(grpc::Channel& channel, std::chrono::milliseconds time,
                         const std::function<bool()>& ended = {});

/// Interval and timeout of a client's pings on an idle connection. The server must permit this
/// rate.
inline constexpr int kClientKeepaliveMilliseconds = 1'500;
inline constexpr int kClientKeepaliveTimeoutMilliseconds = 2'500;

/// Interval of the server's pings.
inline constexpr int kServerKeepaliveMilliseconds = 10'000;

}  // namespace pfc
