#include "data/images/image_file.h"

#include <spdlog/fmt/fmt.h>

#include "common/files/regular_file.h"
#include "data/damaged_image.h"

namespace pfc {

Extent image_file(const std::filesystem::path& path) {
  auto file = as_damaged_image([&] { return std::make_shared<const RegularFile>(path); });
  const std::uint64_t bytes = file->bytes();
  if (bytes <= kMaxImageBytes) return {std::move(file), 0, bytes};
  throw DamagedImage(
      fmt::format("{}: found {} bytes, expected at most {}", path.string(), bytes, kMaxImageBytes));
}

std::span<const std::byte> read_image_file(const std::filesystem::path& path, ImageBuffer& buffer) {
  return StoredImage(image_file(path), {}, buffer).all();
}

}  // namespace pfc
