// RAII owners of OpenSSL's objects, and its errors as exceptions.
#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

namespace pfc {

template <auto Free>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

using KeyOwner = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using CertificateOwner = std::unique_ptr<X509, FreeWith<X509_free>>;
using RequestOwner = std::unique_ptr<X509_REQ, FreeWith<X509_REQ_free>>;
using ExtensionOwner = std::unique_ptr<X509_EXTENSION, FreeWith<X509_EXTENSION_free>>;
using NamesOwner = std::unique_ptr<GENERAL_NAMES, FreeWith<GENERAL_NAMES_free>>;
using NumberOwner = std::unique_ptr<BIGNUM, FreeWith<BN_free>>;
using BioOwner = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;

/// Throws std::runtime_error "DOING: OpenSSL's reason" if `ok` is false.
void expect_openssl(bool ok, std::string_view doing);

/// Returns a reader of `text`, which must outlive it.
BioOwner reader_of(std::string_view text);
BioOwner memory_writer();
std::string written_text(BIO& bio);

/// Parse the first object of this kind in PEM text, which may be untrusted. Return null if there
/// is none.
CertificateOwner certificate_from_pem(std::string_view pem);
RequestOwner request_from_pem(std::string_view pem);
/// The key must not have a passphrase.
KeyOwner key_from_pem(std::string_view pem);

}  // namespace pfc
