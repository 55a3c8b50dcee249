// Keys and certificates for TLS connections.
#pragma once

#include <filesystem>
#include <string>

namespace pfc {

/// All in PEM. If `authority` is empty the connection is in plaintext. If `certificate` is empty
/// the program does not authenticate itself.
struct Credential {
  std::string authority;    ///< must have signed the peer's certificate
  std::string certificate;  ///< certificate of this program
  std::string key;          ///< private key of this program

  [[nodiscard]] bool secure() const { return !authority.empty(); }
};

/// The name in the coordinator's certificate, independent of its address.
inline constexpr const char* kCoordinatorName = "pfc-coordinator";

/// Returns key, certificate and authority in one text.
std::string to_text(const Credential& credential);
/// Parses to_text()'s output. Throws InputError that begins with `origin` if a part is missing.
Credential credential_from_text(const std::string& text, const std::string& origin);

/// Reads a file that only this user may read (secret_file.h). "-" reads stdin, with a timeout of
/// 10 s, and then replaces stdin by /dev/null so that child processes do not see the credential.
Credential read_credential(const std::filesystem::path& path);

}  // namespace pfc
