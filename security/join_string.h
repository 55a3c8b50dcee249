// Join string: TOKEN@HOST:PORT#FINGERPRINT. With it an agent finds and trusts a coordinator.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace pfc {

/// Environment variable that may hold a join string.
inline constexpr const char* kJoinVariable = "PFC_JOIN";

struct JoinString {
  std::string token;        ///< 32 hex digits; a secret
  std::string address;      ///< HOST:PORT; an IPv6 address is in brackets
  std::string fingerprint;  ///< SHA-256 of the coordinator's authority, 64 hex digits

  friend bool operator==(const JoinString&, const JoinString&) = default;
};

inline constexpr std::size_t kTokenDigits = 32;

/// Parses any text of any length and ignores surrounding white space. Throws InputError that
/// begins with `origin` and never quotes the text, because it may be a secret.
JoinString parse_join_string(std::string_view text, std::string_view origin);

std::string to_text(const JoinString& join);

/// Parses a token, or takes the token of a join string. Throws as parse_join_string().
std::string parse_token(std::string_view text, std::string_view origin);

/// Reads a join string's text from a file, or from stdin for the path "-". Throws InputError.
std::string read_join_text(const std::filesystem::path& path);
JoinString read_join_string(const std::filesystem::path& path);

/// Returns the value of PFC_JOIN (empty if unset) and removes it from the environment, so that
/// child processes do not inherit it. REQUIRES: no other thread runs.
std::string take_join_variable();

}  // namespace pfc
