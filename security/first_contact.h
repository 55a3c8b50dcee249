// The first connection to a coordinator of which only the fingerprint is known.
#pragma once

#include <chrono>
#include <string>

namespace pfc {

/// Connects to HOST:PORT by TLS, sends nothing else, and returns the certificate (PEM) of the
/// authority that the other side shows and that has this fingerprint: from then on it is what the
/// other side's certificate must be signed by. Waits at most `limit`, apart from a name server.
/// Throws CommError where the other side cannot be reached, and InputError where it shows another
/// authority, or speaks no TLS.
std::string fetch_authority(const std::string& address, const std::string& fingerprint,
                            std::chrono::milliseconds limit);

}  // namespace pfc
