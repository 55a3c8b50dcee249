// Writes verification .bin files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace pfc {

/// Pair k is images 2k and 2k + 1 (encoded, 2n for n pairs); same[k]: one person. A protocol-4
/// pickle of (list of bytes, list of bool), which arcface_torch reads too. The file appears whole.
/// Throws StorageError.
void write_verification_bin(const std::filesystem::path& path,
                            std::span<const std::vector<std::byte>> images,
                            const std::vector<bool>& same);

}  // namespace pfc
