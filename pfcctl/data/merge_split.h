// Several data sets to one, and one to two.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "pfcctl/data/pack.h"
#include "pfcctl/data/writing.h"

namespace pfc {

struct MergeOptions {
  std::vector<std::filesystem::path> in;  ///< any layouts
  /// One file for each set, whose line k is the name of its label k; empty: the sets' own names.
  std::vector<std::filesystem::path> identities;
  bool share_identities = false;  ///< people of the same name are one
  PackOptions pack;               ///< but for `in`
};

/// Classes and images as a job with these sets would have them (combined_dataset.h), written as
/// pack_dataset() does.
Packed merge_datasets(const MergeOptions& options, const ShowProgress& progress);

struct SplitOptions {
  double held_out = 0.1;  ///< part of the people
  std::uint64_t seed = 1;
  PackOptions pack;  ///< into the folders `train` and `held-out` in pack.out
};

struct Split {
  Packed train, held_out;
};

/// People drawn at random go into `held-out` with all their images, the others into `train`; labels
/// keep their order in both, and one that no image has is in neither. Throws InputError where one
/// of them would have no people.
Split split_dataset(const SplitOptions& options, const ShowProgress& progress);

}  // namespace pfc
