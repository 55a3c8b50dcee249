// Plants errors in the labels of a data set, to measure how many of them are found, and with which
// scores.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pfcctl/data/clean/finding.h"
#include "pfcctl/data/clean/labelled_embeddings.h"

namespace pfc {

enum class ErrorKind { kFlipped, kSplit, kMerged, kCopied, kLeaked };
inline constexpr std::size_t kErrorKinds = 5;

struct PlantedError {
  ErrorKind kind = ErrorKind::kFlipped;
  std::int64_t image = -1;     ///< flipped or copied
  std::int64_t identity = -1;  ///< split, leaked: label of the second half; merged: of the pair
  bool small = false;          ///< the person or, if merged, one of the two, had under 5 images
};

/// Labels with planted errors.
struct PlantedErrors {
  ImageLabels labels;
  std::vector<PlantedError> errors;
  std::vector<std::int64_t> person;  ///< [images]: the label before; that of the source for a copy
  std::vector<std::int64_t> home;    ///< [labels before]: the label that the person has now
};

/// Plants errors at random places, which `seed` determines. Only images and people of which nothing
/// was found are changed, because the truth about the others is not known:
/// - flipped: images get a random other label; 1 % of the images. Also all images of 0.1 % of the
///   people, who are then strangers;
/// - split: half of the images of 1 % of the people get a new label;
/// - merged: 1 % of the people get the label of another one;
/// - copied: 1 % of the images get a copy, whose cosine with the image is 0.98 to 1. Each fourth
///   copy gets a random other label;
/// - leaked, if there is a test set: half of the images of 1 % of the people move to it.
/// At least 100 of each kind, but at most a sixteenth of the people or images. A person is changed
/// once. REQUIRES: the labels have no copies.
PlantedErrors plant_errors(const ImageLabels& labels, const std::vector<Finding>& found,
                           std::uint64_t seed);

/// Whether the planted errors were found, by kind of error, and by size: 5 images or more, fewer.
struct PlantedRecall {
  std::int64_t planted = 0, found = 0;
};
using PlantedRecalls = std::array<std::array<PlantedRecall, 2>, kErrorKinds>;

/// Findings that planted errors caused.
class PlantedFindings {
 public:
  /// `before`: findings in the set itself. Leaves out those that are found again, because it is not
  /// known whether they are right, and right ones that are not about a planted error. An identity
  /// belongs to the person of most of its images. Borrows `planted`.
  PlantedFindings(const PlantedErrors& planted, const std::vector<Finding>& before,
                  const std::vector<Finding>& found);
  [[nodiscard]] const std::vector<Finding>& right() const { return right_; }
  [[nodiscard]] const std::vector<Finding>& wrong() const { return wrong_; }
  /// Counts the errors that findings with at least this confidence show. `confidence` is called
  /// with a finding.
  template <class F>
  [[nodiscard]] PlantedRecalls recalls(double least, const F& confidence) const {
    std::vector<bool> found(planted_.errors.size());
    for (std::size_t i = 0; i < right_.size(); ++i) {
      if (confidence(right_[i]) >= least) found[errors_[i]] = true;
    }
    return counted(found);
  }

 private:
  [[nodiscard]] PlantedRecalls counted(const std::vector<bool>& found) const;

  const PlantedErrors& planted_;
  std::vector<Finding> right_, wrong_;
  std::vector<std::size_t> errors_;  // [right_]: index of the error
};

}  // namespace pfc
