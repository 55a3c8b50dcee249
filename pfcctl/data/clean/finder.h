// Finds suspected errors in the labels of a data set by its embeddings (docs/cleaning.md).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "pfcctl/data/clean/finding.h"
#include "pfcctl/data/clean/labelled_embeddings.h"
#include "pfcctl/data/clean/thresholds.h"

namespace pfc {

/// Number of other identities with which the images of an identity are compared one by one.
inline constexpr std::int64_t kNearestIdentities = 16;

struct FinderOptions {
  int threads = 0;  ///< 0: all cores
  /// Called with the progress of each part of the work, on the calling thread. An exception ends
  /// the work. Empty: not called.
  std::function<void(const char* doing, const char* units, std::int64_t done, std::int64_t all)>
      progress = {};
};

struct FoundErrors {
  CleaningThresholds thresholds;
  std::vector<Finding> findings;  ///< in an order that does not depend on the number of threads
};

/// Finds the errors. Identities of the test set are only compared with the others; nothing in them
/// is reported. Memory in bytes, for C identities and N images of D numbers, without findings: 4 C
/// D
/// + 150 C + 17 N, the embeddings of an identity for each thread, and about 300 MB. Takes
/// 2 D C (C + S) operations for the centres, where S is the number of suspected images. The result
/// does not depend on the number of threads. Throws InputError if fewer than kFewestSamples
/// identities have three images.
FoundErrors find_errors(const LabelledEmbeddings& set, const FinderOptions& options);

}  // namespace pfc
