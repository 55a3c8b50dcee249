#include "security/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>
#include <stdexcept>

namespace pfc {
namespace {

/// Replaces OpenSSL's callback, which prompts on the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

}  // namespace

void expect_openssl(bool ok, std::string_view doing) {
  if (ok) return;
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  ERR_clear_error();
  throw std::runtime_error(std::string(doing) + ": " + reason.data());
}

BioOwner reader_of(std::string_view text) {
  BioOwner bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  expect_openssl(bio != nullptr, "reading from memory");
  return bio;
}

BioOwner memory_writer() {
  BioOwner bio(BIO_new(BIO_s_mem()));
  expect_openssl(bio != nullptr, "writing to memory");
  return bio;
}

std::string written_text(BIO& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(&bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

CertificateOwner certificate_from_pem(std::string_view pem) {
  CertificateOwner found(PEM_read_bio_X509(reader_of(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return found;
}

RequestOwner request_from_pem(std::string_view pem) {
  RequestOwner found(PEM_read_bio_X509_REQ(reader_of(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return found;
}

KeyOwner key_from_pem(std::string_view pem) {
  KeyOwner found(PEM_read_bio_PrivateKey(reader_of(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return found;
}

}  // namespace pfc
