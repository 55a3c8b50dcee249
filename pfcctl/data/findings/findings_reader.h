// Reads the findings of pfcctl data clean, also after a review (docs/cleaning.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "pfcctl/data/clean/finder.h"

namespace pfc {

struct SetOfFindings {
  std::filesystem::path path;
  std::unique_ptr<Dataset> dataset;  ///< nullptr: not given; only for the test set
  std::vector<std::int64_t> labels;  ///< [images], -1 if unknown
};

/// The data sets of findings. Their images and identities are numbered together, those of the test
/// set last.
struct SetsOfFindings {
  SetOfFindings cleaned, test;

  [[nodiscard]] std::int64_t first_test_image() const { return cleaned.dataset->info().images; }
  [[nodiscard]] std::int64_t first_test_identity() const { return cleaned.dataset->info().classes; }
};

struct ReadFinding {
  Finding finding;               ///< without its score
  std::string action;            ///< "move", "drop", "merge" or "split"
  std::optional<bool> accepted;  ///< std::nullopt: no decision
  std::string text;              ///< the JSON object as in the file, without its decision
};

/// Calls take() for each finding, in the order of the file. Checks all lines against the data sets
/// that are given: images and identities must exist, images with a known label must have the one
/// that the finding gives them; names, if given, must match. Throws InputError that names file,
/// line and row, what was found and what was expected.
void read_findings(const std::filesystem::path& file, const SetsOfFindings& sets,
                   const std::function<void(ReadFinding)>& take);

}  // namespace pfc
