// What an agent is given to find and trust a coordinator: TOKEN@HOST:PORT#FINGERPRINT.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace pfc {

/// The environment variable that may have one.
inline constexpr const char* kJoinVariable = "PFC_JOIN";

struct JoinString {
  std::string token;        ///< 32 hex digits; a secret
  std::string address;      ///< HOST:PORT; an IPv6 address stands in brackets
  std::string fingerprint;  ///< SHA-256 of the coordinator's authority, 64 hex digits

  friend bool operator==(const JoinString&, const JoinString&) = default;
};

inline constexpr std::size_t kTokenDigits = 32;

/// Takes any text of any length; spaces and line ends around it are left out. Throws InputError
/// that begins with `origin`, and never quotes the text, which may be a secret.
JoinString parse_join_string(std::string_view text, std::string_view origin);

std::string to_text(const JoinString& join);

/// Takes a token alone, or the one of a join string. Throws as parse_join_string().
std::string parse_token(std::string_view text, std::string_view origin);

/// Reads the text of one from a file, or from stdin where the path is "-". Throws InputError.
std::string read_join_text(const std::filesystem::path& path);
JoinString read_join_string(const std::filesystem::path& path);

/// Takes PFC_JOIN out of the environment, so that the programs that this one starts do not have it.
/// Returns its text; empty: there is none. REQUIRES: no other thread runs.
std::string take_join_variable();

}  // namespace pfc
