// Verification .bin files: a pickle of (list of encoded images, list of bool).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace pfc {

/// A verification set: pair k is images 2k and 2k + 1. Images stay encoded until they are needed.
struct VerificationSet {
  std::string name;                            ///< file name without .bin
  std::vector<std::vector<std::byte>> images;  ///< JPEG or PNG bytes, 2n for n pairs
  std::vector<bool> same;                      ///< [n]: both images show the same person

  [[nodiscard]] std::size_t bytes() const;  ///< of memory: the encoded images
};

/// Reads a .bin pickle (images as bytes or numpy uint8 arrays; protocols 2 to 5, Python 2 too).
/// Bounded, runs nothing. Throws InputError that names file and offset or item.
VerificationSet read_verification_bin(const std::filesystem::path& path);
/// The same, from bytes in memory; `path` is for the name and for errors.
VerificationSet parse_verification_bin(const std::filesystem::path& path,
                                       std::span<const std::byte> file);

/// NAME.bin or NAME in the data folder (`rec`, or the folder of that .rec file), or a path. Throws
/// InputError with the places tried.
std::filesystem::path find_verification_bin(const std::string& target,
                                            const std::filesystem::path& rec);

}  // namespace pfc
