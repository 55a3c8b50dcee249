// Verification .bin files: any bytes are either a set or an InputError.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/error.h"
#include "model/evaluation/verification_bin.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/model/evaluation/python_pickles.h"

namespace pfc::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const std::string_view hex :
       {kBytesProtocol2, kBytesProtocol3, kBytesProtocol4, kBytesProtocol5, kNumpyProtocol2,
        kNumpyProtocol3, kNumpyProtocol4, kNumpyProtocol5}) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    }
    all.push_back(std::move(bytes));
  }
  return all;
}

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    static_cast<void>(
        pfc::parse_verification_bin("fuzz.bin", std::as_bytes(std::span(data, size))));
  } catch (const pfc::InputError&) {
  }
  return 0;
}
