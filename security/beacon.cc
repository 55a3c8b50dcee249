#include "security/beacon.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>

#include "common/network_address.h"
#include "security/openssl.h"

namespace pfc {
namespace {

constexpr std::string_view kBegin = "pfc-beacon 1 ";
constexpr std::size_t kDigits = 64;

bool is_hex_digest(std::string_view text) {
  return text.size() == kDigits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string hmac(std::string_view text, std::string_view key) {
  std::array<unsigned char, kDigits / 2> mac{};
  const unsigned char* const made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), nullptr);
  expect_openssl(made != nullptr, "signing a beacon");
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : mac) {
    hex += kHex[byte >> 4];
    hex += kHex[byte & 15];
  }
  return hex;
}

/// Removes and returns the text up to the next space or the end.
std::string_view take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

std::string sign_beacon(const Beacon& beacon, std::string_view token_hash) {
  const std::string text = std::string(kBegin) + beacon.address + " " + beacon.fingerprint;
  return text + " " + hmac(text, token_hash);
}

std::optional<Beacon> verify_beacon(std::string_view datagram, std::string_view token_hash) {
  if (datagram.size() > kLongestBeacon || !datagram.starts_with(kBegin)) return {};
  const std::size_t end = datagram.rfind(' ');
  const std::string expected = hmac(datagram.substr(0, end), token_hash);
  const std::string_view mac = datagram.substr(end + 1);
  if (mac.size() != expected.size() ||
      CRYPTO_memcmp(mac.data(), expected.data(), expected.size()) != 0) {
    return {};
  }
  std::string_view rest = datagram.substr(kBegin.size());
  const std::string address(take_word(rest)), fingerprint(take_word(rest));
  if (host_of(address).empty() || !is_hex_digest(fingerprint)) return {};
  return Beacon{.address = address, .fingerprint = fingerprint};
}

}  // namespace pfc
