#include "security/certificate.h"

#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

namespace pfc {
namespace {

std::optional<Identity> identity_of(X509& certificate) {
  const NamesOwner names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    return identity_from_uri({reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                              static_cast<std::size_t>(ASN1_STRING_length(uri))});
  }
  return {};
}

}  // namespace

std::optional<CertificateFacts> facts_of(std::string_view pem) {
  const CertificateOwner certificate = certificate_from_pem(pem);
  if (certificate == nullptr) return {};
  auto identity = identity_of(*certificate);
  if (!identity) return {};
  return CertificateFacts{.identity = *std::move(identity), .serial = serial_of(*certificate)};
}

std::string fingerprint_of(X509& certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned size = 0;
  expect_openssl(X509_digest(&certificate, EVP_sha256(), sum.data(), &size) == 1,
                 "hashing a certificate");
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", sum[i]);
    text += digits.data();
  }
  return text;
}

std::string serial_of(X509& certificate) {
  const NumberOwner number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(&certificate), nullptr));
  expect_openssl(number != nullptr, "reading a serial number");
  char* const digits = BN_bn2hex(number.get());
  expect_openssl(digits != nullptr, "writing a serial number");
  std::string text(digits);
  OPENSSL_free(digits);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string validity_problem(const X509& certificate, std::time_t now) {
  if (X509_cmp_time(X509_get0_notBefore(&certificate), &now) > 0) return "is not valid yet";
  if (X509_cmp_time(X509_get0_notAfter(&certificate), &now) < 0) return "has expired";
  return {};
}

std::string to_pem(X509& certificate) {
  const BioOwner bio = memory_writer();
  expect_openssl(PEM_write_bio_X509(bio.get(), &certificate) == 1, "writing a certificate");
  return written_text(*bio);
}

}  // namespace pfc
