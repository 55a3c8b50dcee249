// Data sets other than RecordIO. The first byte selects a tar archive, a .lst or a .tsv.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/read_all.h"
#include "tests/support/encoded_images.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace {

constexpr std::size_t kBlock = 512;

/// Returns a member of a ustar archive.
std::string member(const std::string& name, const std::string& content, char type = '0') {
  std::string header(kBlock, '\0');
  name.copy(header.data(), 100);
  std::snprintf(header.data() + 124, 12, "%011zo", content.size());
  header[156] = type;
  std::snprintf(header.data() + 257, 6, "ustar");
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(header.data() + 148, 8, "%06o", sum);
  return header + content + std::string((kBlock - content.size() % kBlock) % kBlock, '\0');
}

}  // namespace

namespace pfc::fuzz {

std::vector<std::string> seeds() {
  const auto jpeg = testing::make_jpeg(8, 8, 1);
  const std::string image(reinterpret_cast<const char*>(jpeg.data()), jpeg.size());
  return {"t" + member("a/0.jpg", image) + member("a/0.cls", "3\n") +
              member("./PaxHeaders/x", "18 path=long/1.jpg\n", 'x') + member("x", image) +
              member("long/1.json", R"({"label": 7})") + std::string(2 * kBlock, '\0'),
          "t" + member("././@LongLink", std::string(150, 'n') + ".png", 'L') + member("n", image),
          "l0\t3.000000\tx.jpg\n1\t0\t0.5\ty.jpg\r\n", "spath\tlabel\nx.jpg\t16777217\n"};
}

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const pfc::TemporaryFolder folder;
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const char* const name = data[0] == 't' ? "x.tar" : data[0] == 'l' ? "x.lst" : "x.tsv";
  pfc::testing::write_file(folder / name, input);
  pfc::fuzz::read_all(folder / name);
  return 0;
}
