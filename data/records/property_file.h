// The `property` file next to a .rec: one line, classes,height,width.
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

/// Maximum height and width of an image.
inline constexpr std::int64_t kMaxImageSide = 4096;

/// Returns nullopt if the file does not exist. Throws InputError if it cannot be read, or if it
/// does not contain three numbers; the message quotes the content.
std::optional<Property> read_property(const std::filesystem::path& path);

/// Throws StorageError.
void write_property(const std::filesystem::path& path, const Property& property);

}  // namespace pfc
