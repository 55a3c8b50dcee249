// What a certificate says.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "security/identity.h"
#include "security/openssl.h"

namespace pfc {

/// Of a certificate that was checked before: what is read here is not proven by anything.
struct CertificateFacts {
  Identity identity;
  std::string serial;  ///< lower-case hex
};

/// None where the PEM text has no certificate, or it is not of this project's form.
std::optional<CertificateFacts> facts_of(std::string_view pem);

/// SHA-256 of the whole certificate, 64 lower-case hex digits.
std::string fingerprint_of(X509& certificate);

std::string serial_of(X509& certificate);

/// "is not valid yet" or "has expired", at `now`; empty if the certificate is valid then.
std::string validity_problem(const X509& certificate, std::time_t now);

/// The certificate in PEM.
std::string to_pem(X509& certificate);

}  // namespace pfc
