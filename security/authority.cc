#include "security/authority.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <vector>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "security/certificate.h"
#include "security/private_key.h"
#include "security/secret_file.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

constexpr long kDay = 86'400;  // seconds
constexpr long kYears = 3'653 * kDay;
constexpr std::size_t kLongestAuthorityFile = 16 << 10;

void add_extension(X509& certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, &certificate, nullptr, nullptr, 0);
  const ExtensionOwner extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  expect_openssl(extension != nullptr && X509_add_ext(&certificate, extension.get(), -1) == 1,
                 "adding an extension to a certificate");
}

/// Adds a subject alternative name. X509V3_EXT_conf_nid() would parse commas and colons in `text`.
void add_name(X509& certificate, int kind, const std::string& text) {
  const NamesOwner names(GENERAL_NAMES_new());
  GENERAL_NAME* const name = GENERAL_NAME_new();
  ASN1_IA5STRING* const value = ASN1_IA5STRING_new();
  expect_openssl(names != nullptr && name != nullptr && value != nullptr &&
                     ASN1_STRING_set(value, text.data(), static_cast<int>(text.size())) == 1,
                 "naming a certificate");
  GENERAL_NAME_set0_value(name, kind, value);
  expect_openssl(sk_GENERAL_NAME_push(names.get(), name) > 0 &&
                     X509_add1_ext_i2d(&certificate, NID_subject_alt_name, names.get(), 0, 0) == 1,
                 "naming a certificate");
}

NumberOwner draw_serial() {
  std::array<unsigned char, 16> bytes{};
  expect_openssl(RAND_bytes(bytes.data(), bytes.size()) == 1, "drawing a serial number");
  bytes.front() = (bytes.front() & 0x7fU) | 0x40U;  // positive, and always of the same length
  return NumberOwner(BN_bin2bn(bytes.data(), bytes.size(), nullptr));
}

/// Sets the serial number: hexadecimal `digits`, or a random number if empty.
void set_serial(X509& certificate, const std::string& digits = {}) {
  BIGNUM* read = nullptr;
  if (!digits.empty()) BN_hex2bn(&read, digits.c_str());
  const NumberOwner number = read == nullptr ? draw_serial() : NumberOwner(read);
  ASN1_INTEGER* const place = X509_get_serialNumber(&certificate);
  expect_openssl(number != nullptr && BN_to_ASN1_INTEGER(number.get(), place) != nullptr,
                 "numbering a certificate");
}

/// Returns a certificate without issuer, end of validity, extensions and signature.
CertificateOwner unsigned_certificate(EVP_PKEY& public_key, const std::string& common_name) {
  CertificateOwner certificate(X509_new());
  expect_openssl(certificate != nullptr && X509_set_version(certificate.get(), X509_VERSION_3) == 1,
                 "making a certificate");
  set_serial(*certificate);
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  const auto* const text = reinterpret_cast<const unsigned char*>(common_name.c_str());
  expect_openssl(X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kDay) != nullptr &&
                     X509_set_pubkey(certificate.get(), &public_key) == 1 &&
                     X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1,
                 "making a certificate");
  return certificate;
}

CertificateOwner make_authority(EVP_PKEY& key) {
  CertificateOwner certificate = unsigned_certificate(key, "pfc certificate authority");
  expect_openssl(
      X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get())) == 1 &&
          X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kYears) != nullptr,
      "making a certificate");
  add_extension(*certificate, certificate.get(), NID_basic_constraints,
                "critical,CA:TRUE,pathlen:0");
  add_extension(*certificate, certificate.get(), NID_key_usage, "critical,keyCertSign");
  add_extension(*certificate, certificate.get(), NID_subject_key_identifier, "hash");
  expect_openssl(X509_sign(certificate.get(), &key, EVP_sha256()) > 0, "signing a certificate");
  return certificate;
}

}  // namespace

Authority::Authority(const fs::path& folder) {
  const fs::path path = folder / "authority.pem";
  if (something_at(path)) {
    const std::string text = read_secret(path, kLongestAuthorityFile);
    key_ = key_from_pem(text);
    certificate_ = certificate_from_pem(text);
    if (key_ == nullptr || certificate_ == nullptr ||
        X509_check_private_key(certificate_.get(), key_.get()) != 1) {
      throw InputError(path.string() +
                       ": expected a private key and its certificate; restore the file, or remove "
                       "it and give every agent a new join string");
    }
    if (X509_cmp_current_time(X509_get0_notAfter(certificate_.get())) < 0) {
      throw InputError(path.string() +
                       ": the certificate has expired; remove the file, and give every agent a new "
                       "join string");
    }
  } else {
    key_ = make_key();
    certificate_ = make_authority(*key_);
    write_secret(path, to_pem(*key_) + to_pem(*certificate_));
  }
  certificate_pem_ = to_pem(*certificate_);
  fingerprint_ = fingerprint_of(*certificate_);
}

std::string Authority::text() const { return to_pem(*key_) + certificate_pem_; }

Authority::Issued Authority::issue(EVP_PKEY& public_key, const Identity& identity,
                                   const std::string& serial) const {
  const bool printable =
      std::ranges::all_of(identity.host, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!printable) throw InputError("a host's name in a certificate must be printable ASCII");
  const bool is_server = identity.role == Role::kServer;
  CertificateOwner certificate =
      unsigned_certificate(public_key, "pfc " + std::string(name_of(identity.role)));
  if (!serial.empty()) set_serial(*certificate, serial);
  expect_openssl(
      X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate_.get())) == 1 &&
          X509_set1_notAfter(certificate.get(), X509_get0_notAfter(certificate_.get())) == 1,
      "making a certificate");
  add_extension(*certificate, certificate_.get(), NID_basic_constraints, "critical,CA:FALSE");
  add_extension(*certificate, certificate_.get(), NID_key_usage, "critical,digitalSignature");
  add_extension(*certificate, certificate_.get(), NID_ext_key_usage,
                is_server ? "serverAuth" : "clientAuth");
  add_extension(*certificate, certificate_.get(), NID_authority_key_identifier, "keyid:always");
  if (is_server) {
    add_name(*certificate, GEN_DNS, kCoordinatorName);
  } else {
    add_name(*certificate, GEN_URI, to_uri(identity));
  }
  expect_openssl(X509_sign(certificate.get(), key_.get(), EVP_sha256()) > 0,
                 "signing a certificate");
  return {.certificate = to_pem(*certificate), .serial = serial_of(*certificate)};
}

Credential Authority::make_credential(const Identity& identity) const {
  const KeyOwner key = make_key();
  return {.authority = certificate_pem_,
          .certificate = issue(*key, identity).certificate,
          .key = to_pem(*key)};
}

}  // namespace pfc
