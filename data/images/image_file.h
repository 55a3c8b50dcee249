// The file of one image, read whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace pfc {

/// The most bytes that an encoded image may have.
inline constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 29;

/// The file's bytes: a view of `storage`, which grows where it is too small. Throws DamagedImage
/// that names the file where it cannot be read or has more than kMaxImageBytes.
std::span<const std::byte> read_image_file(const std::filesystem::path& path,
                                           std::vector<std::byte>& storage);

}  // namespace pfc
