// Reads fields of certificates.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "security/identity.h"
#include "security/openssl.h"

namespace pfc {

/// Fields of a certificate. The signature is not verified here, so the caller must have done so.
struct CertificateFacts {
  Identity identity;
  std::string serial;  ///< lower-case hex
};

/// Returns nothing if the PEM text contains no certificate of this project's form.
std::optional<CertificateFacts> facts_of(std::string_view pem);

/// SHA-256 of the whole certificate, 64 lower-case hex digits.
std::string fingerprint_of(X509& certificate);

std::string serial_of(X509& certificate);

/// "is not valid yet" or "has expired", at `now`; empty if the certificate is valid then.
std::string validity_problem(const X509& certificate, std::time_t now);

std::string to_pem(X509& certificate);

}  // namespace pfc
