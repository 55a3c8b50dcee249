// Reads the findings of pfcctl data clean (docs/cleaning.md) for a person who decides about them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace pfc {

struct ReviewedFinding {
  std::string where;      ///< file and line, for messages
  std::string line;       ///< the JSON object as in the file, without its decision
  nlohmann::json values;  ///< has all keys that its kind needs
};

struct FindingsFile {
  std::string sha256;  ///< of the file, in hex
  std::vector<ReviewedFinding> findings;
};

/// An image or an identity: whether it is in the test set, and its row or label.
using ItemKey = std::pair<bool, std::int64_t>;

/// `item`: an image or identity in a finding.
ItemKey key_of(const nlohmann::json& item);

/// Returns the finding's `image` or `images`, which it changes.
std::vector<nlohmann::json> suspected_images(const ReviewedFinding& finding);

/// Reads findings with or without decisions, in the order of the file. Throws InputError that names
/// the file and the line.
FindingsFile findings_to_review(const std::filesystem::path& file);

}  // namespace pfc
