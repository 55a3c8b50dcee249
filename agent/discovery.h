// Finds a coordinator on this machine's networks by what it tells there (security/beacon.h).
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "security/beacon.h"
#include "security/join_string.h"

namespace pfc {

struct DiscoveryOptions {
  std::string token;  ///< that the coordinator must know
  std::chrono::milliseconds limit = std::chrono::milliseconds::max();
  /// After so long without a beacon `notice` gets a line for people, then after twice as long, and
  /// so on.
  std::chrono::milliseconds patience{10'000};
  std::function<void(const std::string& line)> notice;
};

/// Waits until a coordinator that knows the token has told where it is. Listens on every interface,
/// also on those that come meanwhile. Throws InputError where the port cannot be opened, CommError
/// when the limit is over.
JoinString discover(const DiscoveryOptions& options);

}  // namespace pfc
