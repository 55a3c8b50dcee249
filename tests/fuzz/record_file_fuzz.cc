// Training sets in RecordIO: the input up to its first empty line is an .idx, the rest a .rec.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/records/image_record.h"
#include "data/records/writing/record_writer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/read_all.h"
#include "tests/support/encoded_images.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace {

using Payloads = std::vector<std::vector<std::byte>>;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string written(const Payloads& payloads, bool indexed) {
  const pfc::TemporaryFolder folder;
  pfc::RecordWriter writer(folder / "x.rec", folder / "x.idx");
  std::int64_t key = 0;
  for (const auto& payload : payloads) writer.append(key++, payload);
  writer.close();
  const std::string rec = text_of(pfc::testing::read_file(folder / "x.rec"));
  return indexed ? text_of(pfc::testing::read_file(folder / "x.idx")) + "\n" + rec : rec;
}

std::vector<std::byte> image(std::int64_t label, std::string_view bytes) {
  return pfc::encode_image_record(label, 0, std::as_bytes(std::span(bytes)));
}

}  // namespace

namespace pfc::fuzz {

std::vector<std::string> seeds() {
  const std::string png = text_of(testing::encode_png(testing::draw_waves(2, 2, 1), 2, 2));
  const std::string magic = png + std::string(4 - png.size() % 4, 'x') + "\x0a\x23\xd7\xce tail";
  const Payloads insightface{encode_record_zero(2, 2), image(0, png), image(1, png),
                             encode_identity_record(3, 1, 2), encode_identity_record(4, 2, 3)};
  const Payloads plain{image(3, png), image(0, magic), image(1, png)};
  return {written(insightface, true), written(insightface, false), written(plain, true),
          written(plain, false)};
}

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const pfc::TemporaryFolder folder;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t split = input.find("\n\n");
  const bool indexed = split != std::string_view::npos;
  const std::filesystem::path idx = folder / "train.idx";
  if (indexed) pfc::testing::write_file(idx, input.substr(0, split + 1));
  if (!indexed) std::filesystem::remove(idx);
  pfc::testing::write_file(folder / "train.rec", indexed ? input.substr(split + 2) : input);
  pfc::fuzz::read_all(folder.path());
  return 0;
}
