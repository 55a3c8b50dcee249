// pfcctl data clean: writes suspected errors in the labels of embeddings (docs/cleaning.md).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "pfcctl/data/clean/calibration.h"

namespace pfc {

struct CleanOptions {
  std::filesystem::path embeddings;  ///< a data set of embeddings
  std::filesystem::path against;     ///< embeddings of test people; empty: none
  /// The images of both sets, in the order of their embeddings; empty: not given. Without images
  /// of the first set, duplicates are found by their embeddings alone. Without images of the test
  /// set, but with those of the first one, no duplicate of a test image is found.
  std::filesystem::path in, against_in;
  std::filesystem::path output = "findings.jsonl";
  double min_confidence = 0.5;  ///< findings below are not written
  int threads = 0;              ///< 0: all cores
};

/// What was found and written.
struct Cleaned {
  std::int64_t images = 0, damaged = 0;  ///< of `embeddings`
  CleaningThresholds thresholds;
  std::vector<Finding> findings;  ///< those written
  std::int64_t proposed = 0;      ///< number of images that the findings would change
  std::int64_t left_out = 0;      ///< findings with less than the minimum confidence
  /// Errors were planted. Otherwise all confidences are 0.
  bool measured = false;
  std::array<SelfTest, kErrorNames.size()> self_test{};  ///< at the same minimum confidence
};

/// Writes one JSON object for each finding to options.output, the most certain first. The file
/// appears when it is complete. Throws InputError that names a file, and StorageError.
Cleaned clean_labels(const CleanOptions& options);

}  // namespace pfc
