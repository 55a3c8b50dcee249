#include "security/private_key.h"

#include <openssl/pem.h>

#include <array>
#include <span>

#include "common/error.h"
#include "common/files/sha256.h"

namespace pfc {
namespace {

constexpr std::size_t kLongestRequest = 4'096;  // bytes; a request with a P-256 key has about 400

bool is_on_p256(EVP_PKEY& key) {
  std::array<char, 64> group{};
  std::size_t size = 0;
  return EVP_PKEY_is_a(&key, "EC") == 1 &&
         EVP_PKEY_get_group_name(&key, group.data(), group.size(), &size) == 1 &&
         std::string_view(group.data(), size) == SN_X9_62_prime256v1;
}

}  // namespace

KeyOwner make_key() {
  KeyOwner key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", SN_X9_62_prime256v1));
  expect_openssl(key != nullptr, "making a key");
  return key;
}

std::string to_pem(EVP_PKEY& key) {
  const BioOwner bio = memory_writer();
  expect_openssl(
      PEM_write_bio_PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
      "writing a key");
  return written_text(*bio);
}

std::string make_request(EVP_PKEY& key) {
  const RequestOwner request(X509_REQ_new());
  expect_openssl(request != nullptr && X509_REQ_set_pubkey(request.get(), &key) == 1 &&
                     X509_REQ_sign(request.get(), &key, EVP_sha256()) > 0,
                 "making a certificate request");
  const BioOwner bio = memory_writer();
  expect_openssl(PEM_write_bio_X509_REQ(bio.get(), request.get()) == 1,
                 "writing a certificate request");
  return written_text(*bio);
}

KeyOwner key_of_request(const std::string& pem) {
  if (pem.size() > kLongestRequest) {
    throw InputError("the certificate request has " + std::to_string(pem.size()) +
                     " bytes, expected at most " + std::to_string(kLongestRequest));
  }
  const RequestOwner request = request_from_pem(pem);
  if (request == nullptr) throw InputError("the certificate request is not in PEM format");
  KeyOwner key(X509_REQ_get_pubkey(request.get()));
  if (key == nullptr || !is_on_p256(*key)) {
    throw InputError("the certificate request's key is not an ECDSA key on P-256");
  }
  if (X509_REQ_verify(request.get(), key.get()) != 1) {
    throw InputError("the certificate request is not signed with its own key");
  }
  return key;
}

std::string hash_of(EVP_PKEY& key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(&key, &der);
  expect_openssl(size > 0, "writing a public key");
  const std::unique_ptr<unsigned char, decltype([](unsigned char* p) { OPENSSL_free(p); })> owner(
      der);
  return sha256_hex(std::as_bytes(std::span(der, static_cast<std::size_t>(size))));
}

}  // namespace pfc
