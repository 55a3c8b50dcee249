// Verification .bin files: any bytes are either a set or an InputError.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/error.h"
#include "worker/evaluation/verification_bin.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    static_cast<void>(
        pfc::parse_verification_bin("fuzz.bin", std::as_bytes(std::span(data, size))));
  } catch (const pfc::InputError&) {
  }
  return 0;
}
