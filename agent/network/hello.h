// Mutual authentication of two agents on a connection of a network measurement.
//
// The connecting agent sends a hello, and the other replies. Both messages contain an HMAC-SHA256
// over a nonce, with the measurement's secret as its key. So connections from strangers are
// ignored, and another program that listens at the address is not mistaken for the intended host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pfc {

struct Hello {
  std::int32_t to_host = 0;  ///< number of the intended host
  bool transfer = false;     ///< data follows, whose speed the receiver measures
};

inline constexpr std::size_t kHelloBytes = 8 + 16 + 4 + 1 + 32;
inline constexpr std::size_t kAnswerBytes = 32;

/// Returns kHelloBytes with a new nonce.
std::string make_hello(std::string_view secret, const Hello& hello);
/// Parses a message of make_hello(). Returns nothing if its sender does not know the secret.
std::optional<Hello> read_hello(std::string_view secret, std::string_view bytes);
/// Returns the intended host's reply to this hello (kAnswerBytes).
std::string answer_to(std::string_view secret, std::string_view hello);

/// Compares two codes in constant time.
bool same_code(std::string_view a, std::string_view b);

}  // namespace pfc
