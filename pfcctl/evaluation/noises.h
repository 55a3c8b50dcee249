// MegaFace's lists of noisy images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/chosen_dataset.h"

namespace pfc {

/// Names of images to leave out. A name matches an image whose path is the name, or ends with "/"
/// and the name.
class Noises {
 public:
  /// Reads a name a line; of fields between tabs the second one. Skips empty lines and those that
  /// begin with "#". Throws InputError, also for a list without names.
  explicit Noises(const std::vector<std::filesystem::path>& lists);

  /// The other images of the data set, which is borrowed.
  std::unique_ptr<Dataset> leave_out_of(const Dataset& dataset);

  [[nodiscard]] std::int64_t matched() const { return std::ssize(matched_); }
  [[nodiscard]] std::int64_t unmatched() const { return std::ssize(names_) - matched(); }

 private:
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> matched_;
};

}  // namespace pfc
