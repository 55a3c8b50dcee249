// What a program shows to the other side of a TLS connection, and what it expects of that one.
#pragma once

#include <filesystem>
#include <string>

namespace pfc {

/// All in PEM. Without `authority` the connection is in plaintext; without `certificate` the
/// program shows none.
struct Credential {
  std::string authority;    ///< the certificate that must have signed the other side's
  std::string certificate;  ///< its own
  std::string key;          ///< its own

  [[nodiscard]] bool secure() const { return !authority.empty(); }
};

/// The name that the coordinator's certificate has, whatever its address is.
inline constexpr const char* kCoordinatorName = "pfc-coordinator";

/// One text for all: key, certificate, authority.
std::string to_text(const Credential& credential);
/// Reads what to_text() wrote. Throws InputError that begins with `origin` where a part is missing.
Credential credential_from_text(const std::string& text, const std::string& origin);

/// Reads a file that only this user may read (secret_file.h). "-" is what the program that has
/// started this one has put into its stdin, which is /dev/null from then on, so that programs that
/// this one starts do not find it; waits for it at most 10 s.
Credential read_credential(const std::filesystem::path& path);

}  // namespace pfc
