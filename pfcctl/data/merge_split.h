// Merges several data sets into one, and splits one into two.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "pfcctl/data/pack/pack.h"
#include "pfcctl/data/writing.h"

namespace pfc {

struct MergeOptions {
  std::vector<std::filesystem::path> in;  ///< any layouts
  /// One file for each set, whose line k is the name of its label k; empty: the sets' own names.
  std::vector<std::filesystem::path> identities;
  bool share_identities = false;  ///< people with the same name are the same person
  PackOptions pack;               ///< `in` is not used
};

/// Merges the sets: classes and images are those of a job with these sets (combined_dataset.h).
/// Writes as pack_dataset() does.
Packed merge_datasets(const MergeOptions& options, const ShowProgress& progress);

struct SplitOptions {
  double held_out = 0.1;  ///< fraction of the people
  std::uint64_t seed = 1;
  PackOptions pack;  ///< writes into the folders `train` and `held-out` in pack.out
};

struct Split {
  Packed train, held_out;
};

/// Writes randomly drawn people with all their images to `held-out`, the others to `train`.
/// Labels keep their order in both; a label without images is in neither. Throws InputError if
/// one of them would have no people.
Split split_dataset(const SplitOptions& options, const ShowProgress& progress);

}  // namespace pfc
