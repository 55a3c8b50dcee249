// The first connection to a coordinator of which only the fingerprint is known.
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
    "it may be busy, or large packets are lost because a link has a smaller MTU than the hosts; "
    "try \"ping -M do -s 1472 HOST\", and lower the MTU of the hosts if it fails";

/// Connects to HOST:PORT by TLS, sends nothing else, and returns the certificate (PEM) of the
/// authority that the other side shows and that has this fingerprint: from then on it is what the
/// other side's certificate must be signed by. Waits at most `limit`, apart from a name server.
/// Throws CommError if the other side cannot be reached, ClockError if one of its certificates is
/// not valid at `now`, and InputError if it shows another authority or does not use TLS.
std::string fetch_authority(const std::string& address, const std::string& fingerprint,
                            std::chrono::milliseconds limit, std::time_t now = std::time(nullptr));

}  // namespace pfc
