// Unauthenticated input: join strings, tokens, beacons, certificates, certificate requests, and
// credentials. The first byte of an input selects one.
#include <string_view>

#include "common/error.h"
#include "security/beacon.h"
#include "security/certificate.h"
#include "security/credential.h"
#include "security/identity.h"
#include "security/join_string.h"
#include "security/private_key.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

const std::string kHash(64, 'a');

std::string with_kind(char kind, const std::string& text) { return kind + text; }

void read(std::uint8_t kind, std::string_view text) {
  switch (kind % 7) {
    case 0: {
      const pfc::JoinString join = pfc::parse_join_string(text, "fuzz");
      if (pfc::parse_join_string(pfc::to_text(join), "fuzz") != join) __builtin_trap();
      return;
    }
    case 1:
      if (pfc::parse_token(text, "fuzz").size() != pfc::kTokenDigits) __builtin_trap();
      return;
    case 2:
      static_cast<void>(pfc::verify_beacon(text, kHash));
      return;
    case 3:
      static_cast<void>(pfc::facts_of(text));
      return;
    case 4:
      static_cast<void>(pfc::key_of_request(std::string(text)));
      return;
    case 5:
      static_cast<void>(pfc::credential_from_text(std::string(text), "fuzz"));
      return;
    default:
      if (const auto identity = pfc::identity_from_uri(text)) {
        if (pfc::to_uri(*identity) != text) __builtin_trap();
      }
  }
}

}  // namespace

std::vector<std::string> pfc::fuzz::seeds() {
  const KeyOwner key = make_key();
  const std::string token(kTokenDigits, 'b'), fingerprint(64, 'c');
  const std::string join = token + "@[2001:db8::7]:7450#" + fingerprint;
  return {
      with_kind(0, join),
      with_kind(1, token),
      with_kind(1, join),
      with_kind(2, sign_beacon({.address = "10.0.0.1:7450", .fingerprint = fingerprint}, kHash)),
      with_kind(4, make_request(*key)),
      with_kind(5, to_pem(*key)),
      with_kind(6, to_uri({.role = Role::kWorker, .host = "::1", .job = "a", .agent = "1f"}))};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    read(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const pfc::InputError&) {
  }
  return 0;
}
