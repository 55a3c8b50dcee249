// How a coordinator tells agents on its network where it is: a datagram that proves that the sender
// knows the token of the agent.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pfc {

/// IPv4 multicast group for administrators (RFC 2365), IPv6 group of one link, and UDP port.
inline constexpr const char* kBeaconGroup4 = "239.255.112.102";
inline constexpr const char* kBeaconGroup6 = "ff02::7066:63";
inline constexpr int kBeaconPort = 7452;
inline constexpr std::size_t kLongestBeacon = 512;

struct Beacon {
  std::string address;      ///< HOST:PORT of the coordinator; HOST is a number
  std::string fingerprint;  ///< of its authority, 64 hex digits

  friend bool operator==(const Beacon&, const Beacon&) = default;
};

/// "pfc-beacon 1 ADDRESS FINGERPRINT MAC": MAC is HMAC-SHA256 of what is before it, and its key the
/// hash of a token (TokenStore), which is all that the coordinator keeps of it. `token_hash`: 64
/// hex digits. A datagram that somebody repeats does no harm: who has not the authority's key
/// cannot answer at its address in the coordinator's place.
std::string sign_beacon(const Beacon& beacon, std::string_view token_hash);

/// Takes any bytes. None where it is no beacon, or not of a coordinator that knows the token.
std::optional<Beacon> verify_beacon(std::string_view datagram, std::string_view token_hash);

}  // namespace pfc
