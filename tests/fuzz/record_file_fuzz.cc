// Training sets: the input up to its first newline pair is an .idx, the rest a .rec.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/error.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "worker/data/open_dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const pfc::TemporaryFolder folder;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t split = input.find("\n\n");
  const bool indexed = split != std::string_view::npos;
  const std::filesystem::path idx = folder / "train.idx";
  if (indexed) pfc::testing::write_file(idx, input.substr(0, split));
  if (!indexed) std::filesystem::remove(idx);
  pfc::testing::write_file(folder / "train.rec", indexed ? input.substr(split + 2) : input);
  try {
    const auto dataset = pfc::open_dataset({.rec = folder.path()});
    std::vector<std::byte> storage;
    for (std::int64_t i = 0; i < dataset->info().images; ++i) {
      static_cast<void>(dataset->read(i, storage));
    }
  } catch (const pfc::InputError&) {
  }
  return 0;
}
