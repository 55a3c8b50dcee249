// The gRPC connection of agents, workers and pfcctl to the coordinator.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "security/credential.h"

namespace pfc {

/// A channel to host:port: in plaintext without a credential, otherwise over TLS, and only to a
/// coordinator whose certificate the credential's authority has signed, whatever its address. It
/// connects when it is used first, and ignores http_proxy and the like. A peer that does not answer
/// is given up after about 4 s, so that a link that was cut for longer is replaced by a new
/// connection, and not by TCP's next retransmission, which may be as far away as the cut was long.
std::shared_ptr<grpc::Channel> make_channel(const std::string& address,
                                            const Credential& credential = {});

/// Returns gRPC's message about a failed call, with advice if a TLS handshake has stalled.
std::string problem_of(const grpc::Status& status);

/// Connects, trying again and again for at most `time`, and returns whether the channel is
/// connected. REQUIRED of everybody who waits for a coordinator to come back: gRPC pauses longer
/// and longer between its attempts, and hardly looks at them while nobody waits for the channel.
/// `ended` is asked several times a second; once it returns true the wait is over.
bool wait_for_connection(grpc::Channel& channel, std::chrono::milliseconds time,
                         const std::function<bool()>& ended = {});

/// How often a client asks over an idle connection whether its peer is there, and how long it waits
/// for the answer. A server must allow its clients to do so.
inline constexpr int kClientKeepaliveMilliseconds = 1'500;
inline constexpr int kClientKeepaliveTimeoutMilliseconds = 2'500;

/// How often the server asks, and how long it waits.
inline constexpr int kServerKeepaliveMilliseconds = 10'000;

}  // namespace pfc
