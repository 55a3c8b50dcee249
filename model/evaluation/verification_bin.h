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
  std::filesystem::path file;                  ///< the file from which it was read; for messages
  std::vector<std::vector<std::byte>> images;  ///< JPEG or PNG bytes, 2n for n pairs
  std::vector<bool> same;                      ///< [n]: both images show the same person

  [[nodiscard]] std::size_t bytes() const;  ///< memory of the encoded images
};

/// Reads a .bin pickle, with images as bytes or as numpy uint8 arrays (pickle.h). Throws InputError
/// that names the file and the offset or item.
VerificationSet read_verification_bin(const std::filesystem::path& path);
/// Same for bytes in memory. `path` gives the set's name, and appears in errors.
VerificationSet parse_verification_bin(const std::filesystem::path& path,
                                       std::span<const std::byte> file);

/// Writes a pickle of protocol 4, (list of bytes, list of bool), which arcface_torch reads too.
/// Pair k is images 2k and 2k + 1, encoded; same[k] is true if both show one person. The file
/// appears under its name when it is complete. Throws StorageError.
void write_verification_bin(const std::filesystem::path& path,
                            std::span<const std::vector<std::byte>> images,
                            const std::vector<bool>& same);

/// Returns the path of the set `target`. Tries target.bin and target in each data folder (each of
/// `rec`, or its folder if it is a file), then `target` itself, and takes the first regular file. A
/// target with "/" is only tried as a path, and may be a folder. If there is no regular file, but
/// something else at one of these paths, returns that path; read_verification_bin() then reports
/// what is there. Throws InputError with the paths that were tried.
std::filesystem::path find_verification_bin(const std::string& target,
                                            std::span<const std::filesystem::path> rec);

/// In `val_targets`, this word stands for all of LFW, CFP-FP, AgeDB-30, CALFW, CPLFW and XQLFW that
/// the data folders contain.
inline constexpr const char* kPanel = "panel";

/// Calls find_verification_bin() for each target, and replaces kPanel by its sets. Throws
/// InputError also if kPanel has no sets.
std::vector<std::filesystem::path> find_verification_bins(
    const std::vector<std::string>& targets, std::span<const std::filesystem::path> rec);

}  // namespace pfc
