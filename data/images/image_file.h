// The whole file of one image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "data/stored_image.h"

namespace pfc {

/// Maximum size of an encoded image in bytes.
inline constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 29;

/// Opens the file. Throws DamagedImage that names it if it cannot be opened or is larger than
/// kMaxImageBytes.
Extent image_file(const std::filesystem::path& path);

/// Returns the file's bytes: a view of the buffer. Throws DamagedImage like image_file(), or if the
/// file cannot be read.
std::span<const std::byte> read_image_file(const std::filesystem::path& path, ImageBuffer& buffer);

}  // namespace pfc
