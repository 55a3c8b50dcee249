// First connection to a coordinator, when only its fingerprint is known.
#pragma once

#include <chrono>
#include <ctime>
#include <string>

#include "common/error.h"

namespace pfc {

/// The clock of this host or of the coordinator is wrong, so another attempt will also fail.
class ClockError : public InputError {
 public:
  using InputError::InputError;
};

/// Advice for a stalled TLS handshake over an established TCP connection.
inline constexpr const char* kMtuAdvice =
    "the peer may be busy, or large packets are lost because a link has a smaller MTU than the "
    "hosts; "
    "try \"ping -M do -s 1472 HOST\", and lower the MTU of the hosts if it fails";

/// Connects to HOST:PORT, completes a TLS handshake and sends nothing else. Returns the
/// certificate (PEM) in the peer's chain that has this fingerprint: the authority that must sign
/// the peer's certificate on later connections. Waits at most `limit`, plus DNS. Throws CommError
/// if the peer cannot be reached, ClockError if one of its certificates is not valid at `now`, and
/// InputError if the fingerprint does not match or the peer does not use TLS.
std::string fetch_authority(const std::string& address, const std::string& fingerprint,
                            std::chrono::milliseconds limit, std::time_t now = std::time(nullptr));

}  // namespace pfc
