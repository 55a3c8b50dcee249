// Converts a list of pairs and images to a verification set.
#pragma once

#include <cstdint>
#include <filesystem>

#include "pfcctl/data/writing.h"

namespace pfc {

struct PackPairsOptions {
  std::filesystem::path pairs;
  std::filesystem::path images;  ///< a folder
  std::filesystem::path out;     ///< NAME.bin
  bool replace = false;
};

struct PackedPairs {
  std::int64_t pairs = 0, same = 0;
};

/// Throws InputError if `out` is not named NAME.bin, so that a job finds it and no data are
/// overwritten, or if it exists and `replace` is false.
void expect_bin_to_write(const std::filesystem::path& out, bool replace);

/// Writes the .bin that `val_targets` name (model/evaluation/verification_bin.h). The list may be
/// LFW's pairs.txt: its lines are "NAME I J" for two images of one person and "NAME I OTHER J"
/// for two people, and its images are NAME/NAME_0001.jpg. Or it has lines "PATH PATH 1" and "PATH
/// PATH 0". Fields are separated by tabs, or by spaces if there is no tab. Images keep their
/// bytes; each is decoded once as a check. Throws InputError that names the line.
PackedPairs pack_pairs(const PackPairsOptions& options, const ShowProgress& progress);

}  // namespace pfc
