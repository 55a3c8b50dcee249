// Files of embeddings. The first byte selects the kind: n: embeddings.npy, l: labels.npy, s:
// safetensors. With n or l, the other .npy file is valid.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/read_all.h"
#include "tests/support/array_files.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace {

using pfc::testing::bytes_of_numbers;
using pfc::testing::npy;

std::string rows() { return bytes_of_numbers<float>({1, 2, 3, 4, 5, 6}); }
std::string labels() { return bytes_of_numbers<std::int64_t>({0, 16'777'217, 1}); }
std::string halves() { return bytes_of_numbers<std::uint16_t>({0x3c00, 1, 2, 3, 4, 5}); }

}  // namespace

namespace pfc::fuzz {

std::vector<std::string> seeds() {
  return {"n" + npy("<f4", "(3, 2)", rows()),
          "n" + npy("<f2", "(3, 2)", halves(), 2),
          "l" + npy("<i8", "(3,)", labels()),
          "l" + npy("<i4", "(3,)", bytes_of_numbers<std::int32_t>({0, 2, 1}), 3),
          "s" + testing::safetensors(
                    {{"embeddings", "F32", "[3,2]", rows()}, {"labels", "I64", "[3]", labels()}}),
          "s" + testing::safetensors(
                    {{"x", "U8", "[1]", "x"},
                     {"labels", "I32", "[3]", bytes_of_numbers<std::int32_t>({0, 2, 1})},
                     {"embeddings", "BF16", "[3,2]", halves()}})};
}

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const pfc::TemporaryFolder folder;
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 's') {
    pfc::testing::write_file(folder / "x.safetensors", input);
    pfc::fuzz::read_all(folder / "x.safetensors");
    return 0;
  }
  const bool of_labels = data[0] == 'l';
  pfc::testing::write_file(folder / "embeddings.npy",
                           of_labels ? npy("<f4", "(3, 2)", rows()) : std::string(input));
  pfc::testing::write_file(folder / "labels.npy",
                           of_labels ? std::string(input) : npy("<i8", "(3,)", labels()));
  pfc::fuzz::read_all(folder / "embeddings.npy");
  return 0;
}
