// The coordinator's certificate authority: it signs what the hosts of one cluster trust.
#pragma once

#include <filesystem>
#include <string>

#include "security/credential.h"
#include "security/identity.h"
#include "security/openssl.h"

namespace pfc {

/// Certificates of everybody last as long as that of the authority: 10 years. They begin a day in
/// the past, so that a clock that is late does not refuse them. Constant after construction.
class Authority {
 public:
  /// Reads FOLDER/authority.pem, or makes it where there is none. REQUIRES: make_private_folder()
  /// and FolderLock were called. Throws InputError or StorageError that names the file.
  explicit Authority(const std::filesystem::path& folder);

  /// Key and certificate, as authority.pem has them.
  [[nodiscard]] std::string text() const;
  /// Its own certificate, in PEM.
  [[nodiscard]] const std::string& certificate() const { return certificate_pem_; }
  /// By which an agent knows it: 64 lower-case hex digits.
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }

  struct Issued {
    std::string certificate;  ///< PEM
    std::string serial;       ///< lower-case hex
  };
  /// A certificate for the key, with a serial number drawn at random where none is given. Throws
  /// InputError where the host's name cannot stand in a certificate.
  [[nodiscard]] Issued issue(EVP_PKEY& public_key, const Identity& identity,
                             const std::string& serial = {}) const;
  /// One with a new key.
  [[nodiscard]] Credential make_credential(const Identity& identity) const;

 private:
  KeyOwner key_;
  CertificateOwner certificate_;
  std::string certificate_pem_;
  std::string fingerprint_;
};

}  // namespace pfc
