// Beacon: a multicast datagram by which a coordinator announces its address to agents on its
// network. It proves that the sender knows the agent's token.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pfc {

/// Multicast groups (IPv4: administratively scoped, RFC 2365; IPv6: link-local) and UDP port.
inline constexpr const char* kBeaconGroup4 = "239.255.112.102";
inline constexpr const char* kBeaconGroup6 = "ff02::7066:63";
inline constexpr int kBeaconPort = 7452;
inline constexpr std::size_t kLongestBeacon = 512;

struct Beacon {
  std::string address;      ///< HOST:PORT of the coordinator; HOST is a numeric address
  std::string fingerprint;  ///< fingerprint of its authority, 64 hex digits

  friend bool operator==(const Beacon&, const Beacon&) = default;
};

/// Returns the datagram "pfc-beacon 1 ADDRESS FINGERPRINT MAC". MAC is the HMAC-SHA256 of the text
/// before it. The key of the HMAC is `token_hash` (64 hex digits), because the coordinator stores
/// only hashes of tokens (TokenStore). A replayed datagram does no harm: without the authority's
/// key, no other host can impersonate the coordinator at the announced address.
std::string sign_beacon(const Beacon& beacon, std::string_view token_hash);

/// Parses any bytes. Returns nothing unless they are a beacon of a sender with the token.
std::optional<Beacon> verify_beacon(std::string_view datagram, std::string_view token_hash);

}  // namespace pfc
