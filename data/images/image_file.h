// Reads the whole file of one image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace pfc {

/// Maximum size of an encoded image in bytes.
inline constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 29;

/// Returns the file's bytes: a view of `storage`, which grows if it is too small. Throws
/// DamagedImage that names the file if it cannot be read or is larger than kMaxImageBytes.
std::span<const std::byte> read_image_file(const std::filesystem::path& path,
                                           std::vector<std::byte>& storage);

}  // namespace pfc
