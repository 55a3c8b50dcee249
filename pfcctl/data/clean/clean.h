// pfcctl data clean: writes suspected errors in the labels of embeddings (docs/cleaning.md).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "pfcctl/data/clean/finder.h"
#include "pfcctl/data/clean/planted_errors.h"

namespace pfc {

struct CleanOptions {
  std::filesystem::path embeddings;  ///< a data set of embeddings
  std::filesystem::path against;     ///< those of test people; empty: none
  std::filesystem::path output = "findings.jsonl";
  double min_confidence = 0.5;  ///< findings below are not written
  std::uint64_t seed = 1;       ///< of the planted errors
  FinderOptions finder;
};

/// Result for the set with planted errors, at the same minimum confidence.
struct SelfTest {
  PlantedRecalls recalls{};
  /// Part of right findings among those that the planted errors caused, by the kind of error that
  /// they report.
  std::array<double, kErrorKinds> precision{};
};

/// What was found and written.
struct Cleaned {
  std::int64_t images = 0, identities = 0, damaged = 0;  ///< of `embeddings`
  CleaningThresholds thresholds;
  std::vector<Finding> findings;  ///< those written
  std::int64_t proposed = 0;      ///< number of images that the findings would change
  SelfTest self_test;
};

/// Writes one JSON object for each finding to options.output, the most certain first. The file
/// appears when it is complete. Throws InputError that names a file, and StorageError.
Cleaned clean_labels(const CleanOptions& options);

}  // namespace pfc
