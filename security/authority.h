// The coordinator's certificate authority. All hosts of one cluster trust its certificates.
#pragma once

#include <filesystem>
#include <string>

#include "security/credential.h"
#include "security/identity.h"
#include "security/openssl.h"

namespace pfc {

/// All certificates expire with the authority's own, which is valid for 10 years. They are valid
/// from a day in the past, so that hosts with a slow clock accept them. Constant after
/// construction.
class Authority {
 public:
  /// Reads or creates FOLDER/authority.pem. REQUIRES: make_private_folder() was called and
  /// FolderLock is held. Throws InputError or StorageError that names the file.
  explicit Authority(const std::filesystem::path& folder);

  /// Returns the key and the certificate in PEM, the content of authority.pem.
  [[nodiscard]] std::string text() const;
  /// The authority's own certificate, in PEM.
  [[nodiscard]] const std::string& certificate() const { return certificate_pem_; }
  /// SHA-256 of the authority's certificate, 64 lower-case hex digits. Agents verify it.
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }

  struct Issued {
    std::string certificate;  ///< PEM
    std::string serial;       ///< lower-case hex
  };
  /// Issues a certificate for the key. An empty `serial` selects a random number. Throws
  /// InputError if the host's name is not printable ASCII.
  [[nodiscard]] Issued issue(EVP_PKEY& public_key, const Identity& identity,
                             const std::string& serial = {}) const;
  /// Makes a key pair and issues a certificate for it.
  [[nodiscard]] Credential make_credential(const Identity& identity) const;

 private:
  KeyOwner key_;
  CertificateOwner certificate_;
  std::string certificate_pem_;
  std::string fingerprint_;
};

}  // namespace pfc
