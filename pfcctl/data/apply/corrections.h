// Corrections of labels, selected from a file of findings (docs/cleaning.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "pfcctl/data/findings/findings_reader.h"

namespace pfc {

enum class CorrectionKind {
  kMove,           ///< `image` belongs to `other_identity`
  kDrop,           ///< leave out `image`
  kDropDuplicate,  ///< leave out `image` if `other_image` stays
  kDropIdentity,   ///< leave out all images of `identity`
  kMerge,          ///< `identity` and `other_identity` are one person
  kSplit,          ///< `images` are a new identity
};

/// A change of labels. Only the members that its kind names have a meaning.
struct Correction {
  CorrectionKind kind = CorrectionKind::kMove;
  std::int64_t image = -1;
  std::int64_t other_image = -1;  ///< -1: an image of the test set
  std::int64_t identity = -1;
  std::int64_t other_identity = -1;
  std::vector<std::int64_t> images = {};
};

struct SelectedFindings {
  std::vector<Correction> corrections;  ///< of accepted and of certain findings, in file order
  /// Line counts. `certain`: undecided, but >= min_confidence.
  std::int64_t accepted = 0, certain = 0, uncertain = 0, rejected = 0;
};

/// Selects the lines with "decision": "accept", and those without a decision whose confidence is at
/// least min_confidence, if given. Throws like read_findings().
SelectedFindings select_findings(const std::filesystem::path& file, const SetsOfFindings& sets,
                                 std::optional<double> min_confidence);

}  // namespace pfc
