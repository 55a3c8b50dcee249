#include "data/images/image_file.h"

#include <spdlog/fmt/fmt.h>

#include "common/files/regular_file.h"
#include "data/damaged_image.h"

namespace pfc {

std::span<const std::byte> read_image_file(const std::filesystem::path& path,
                                           std::vector<std::byte>& storage) {
  return as_damaged_image([&] {
    RegularFile file(path);
    if (file.bytes() > kMaxImageBytes) {
      throw DamagedImage(fmt::format("{}: {} bytes, more than the {} of an image", path.string(),
                                     file.bytes(), kMaxImageBytes));
    }
    if (storage.size() < file.bytes()) storage.resize(file.bytes());
    const std::size_t got = file.read(std::span(storage).first(file.bytes()));
    return std::span<const std::byte>(storage).first(got);
  });
}

}  // namespace pfc
