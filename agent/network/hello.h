// How two agents prove to each other, on a connection of a measurement, that both take part in it.
//
// The one that connects sends a hello, the other one answers. Both hold a code that only somebody
// who knows the measurement's secret can make (HMAC-SHA256), over a number that is drawn for this
// connection. So a stranger's connection is worth nothing, and a program of another host that
// listens at the address is not taken for the host that was meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pfc {

struct Hello {
  std::int32_t to_host = 0;  ///< the number of the host that is meant
  bool transfer = false;     ///< bytes follow, whose speed the other one measures
};

inline constexpr std::size_t kHelloBytes = 8 + 16 + 4 + 1 + 32;
inline constexpr std::size_t kAnswerBytes = 32;

/// kHelloBytes, each time others.
std::string make_hello(std::string_view secret, const Hello& hello);
/// Empty unless whoever has made it knows the secret.
std::optional<Hello> read_hello(std::string_view secret, std::string_view bytes);
/// kAnswerBytes: what the host that was meant replies to this hello.
std::string answer_to(std::string_view secret, std::string_view hello);

/// Whether two codes are equal, in a time that does not tell where they differ.
bool same_code(std::string_view a, std::string_view b);

}  // namespace pfc
