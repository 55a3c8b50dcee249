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
  std::filesystem::path file;                  ///< the file that it was read from, for messages
  std::vector<std::vector<std::byte>> images;  ///< JPEG or PNG bytes, 2n for n pairs
  std::vector<bool> same;                      ///< [n]: both images show the same person

  [[nodiscard]] std::size_t bytes() const;  ///< of memory: the encoded images
};

/// Reads a .bin pickle, with images as bytes or as numpy uint8 arrays (pickle.h). Throws InputError
/// that names the file and the offset or item.
VerificationSet read_verification_bin(const std::filesystem::path& path);
/// The same for bytes in memory; `path` gives the set's name and is named in errors.
VerificationSet parse_verification_bin(const std::filesystem::path& path,
                                       std::span<const std::byte> file);

/// Writes a pickle of protocol 4, (list of bytes, list of bool), which arcface_torch reads too.
/// Pair k is images 2k and 2k + 1, encoded; same[k] is true where both show one person. The file
/// appears under its name when it is whole. Throws StorageError.
void write_verification_bin(const std::filesystem::path& path,
                            std::span<const std::vector<std::byte>> images,
                            const std::vector<bool>& same);

/// The path of the set `target`: target.bin or target in a data folder (one of `rec`, or the folder
/// of that .rec file), or `target` itself, whichever is a regular file first. A target with "/"
/// may also be a folder. Throws InputError with the places that were tried; where something else is
/// at one of them, read_verification_bin() says what.
std::filesystem::path find_verification_bin(const std::string& target,
                                            std::span<const std::filesystem::path> rec);

/// In `val_targets` it stands for all of LFW, CFP-FP, AgeDB-30, CALFW, CPLFW and XQLFW that the
/// data folders contain.
inline constexpr const char* kPanel = "panel";

/// find_verification_bin() for each target, with kPanel replaced by what it stands for. Throws
/// InputError also where it stands for nothing.
std::vector<std::filesystem::path> find_verification_bins(
    const std::vector<std::string>& targets, std::span<const std::filesystem::path> rec);

}  // namespace pfc
