// The `property` file beside a .rec: one line, classes,height,width.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace pfc {

struct Property {
  std::int64_t classes = 0;
  std::int64_t height = 112;
  std::int64_t width = 112;

  friend bool operator==(const Property&, const Property&) = default;
};

/// The most rows and columns that an image may have.
inline constexpr std::int64_t kMaxImageSide = 4096;

/// nullopt where there is no such file. Throws InputError where there is one that cannot be read,
/// and one that quotes what the file says where that is not three numbers.
std::optional<Property> read_property(const std::filesystem::path& path);

/// Throws StorageError.
void write_property(const std::filesystem::path& path, const Property& property);

}  // namespace pfc
