// Finds a coordinator by its beacon (security/beacon.h).
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "security/beacon.h"
#include "security/join_string.h"

namespace pfc {

struct DiscoveryOptions {
  std::string token;  ///< the coordinator's beacon must prove that it knows this
  std::chrono::milliseconds limit = std::chrono::milliseconds::max();
  /// Calls `notice` with a message if no beacon has arrived after this time, and again whenever the
  /// time waited has doubled.
  std::chrono::milliseconds patience{10'000};
  std::function<void(const std::string& line)> notice;
};

/// Waits for the beacon of a coordinator that knows the token. Listens on all interfaces,
/// including those that come up later. Throws InputError if the port cannot be opened, and
/// CommError after `limit`.
JoinString discover(const DiscoveryOptions& options);

}  // namespace pfc
