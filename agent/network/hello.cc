#include "agent/network/hello.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <stdexcept>

namespace pfc {
namespace {

constexpr std::string_view kMagic{"pfcnet1\0", 8};
constexpr std::size_t kNonceBytes = 16;
constexpr std::size_t kSignedBytes = kHelloBytes - 32;

std::string code(std::string_view secret, std::string_view purpose, std::string_view text) {
  const std::string signed_text = std::string(purpose) + std::string(text);
  std::array<unsigned char, 32> digest{};
  unsigned size = digest.size();
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(signed_text.data()), signed_text.size(),
           digest.data(), &size) == nullptr) {
    throw std::runtime_error("HMAC-SHA256 cannot be computed");
  }
  return {digest.begin(), digest.end()};
}

}  // namespace

std::string make_hello(std::string_view secret, const Hello& hello) {
  std::string text(kMagic);
  std::array<unsigned char, kNonceBytes> nonce{};
  if (RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) != 1) {
    throw std::runtime_error("the system has no random numbers");
  }
  text.append(nonce.begin(), nonce.end());
  for (const int shift : {24, 16, 8, 0}) {
    text += static_cast<char>((static_cast<std::uint32_t>(hello.to_host) >> shift) & 0xff);
  }
  text += hello.transfer ? '\1' : '\0';
  return text + code(secret, "hello", text);
}

std::optional<Hello> read_hello(std::string_view secret, std::string_view bytes) {
  if (bytes.size() != kHelloBytes || !bytes.starts_with(kMagic)) return {};
  const std::string_view text = bytes.substr(0, kSignedBytes);
  if (!same_code(code(secret, "hello", text), bytes.substr(kSignedBytes))) return {};
  std::uint32_t host = 0;
  for (const char byte : text.substr(kMagic.size() + kNonceBytes, 4)) {
    host = host << 8 | static_cast<unsigned char>(byte);
  }
  return Hello{.to_host = static_cast<std::int32_t>(host), .transfer = text.back() == '\1'};
}

std::string answer_to(std::string_view secret, std::string_view hello) {
  return code(secret, "answer", hello);
}

bool same_code(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace pfc
