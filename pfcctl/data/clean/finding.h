// Findings of `pfcctl data clean`: suspected errors in the labels of a data set (docs/cleaning.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pfc {

enum class FindingKind {
  kWrongLabel,  ///< an image that belongs to another identity
  kStranger,    ///< an image that belongs neither to its identity nor to another one
  kSamePerson,  ///< two identities that are one person
  kTwoPeople,   ///< one identity that is two people
  kDuplicate,   ///< an image that is nearly the same as another one
  kLeaked,      ///< an identity that is a person of the test set
};
inline constexpr std::array kFindingKinds = {FindingKind::kWrongLabel, FindingKind::kStranger,
                                             FindingKind::kSamePerson, FindingKind::kTwoPeople,
                                             FindingKind::kDuplicate,  FindingKind::kLeaked};

/// Identities with fewer images are judged by less, and are counted apart.
inline constexpr std::size_t kManyImages = 5;

struct Finding {
  FindingKind kind = FindingKind::kWrongLabel;
  std::int64_t image = -1;        ///< wrong label, stranger, duplicate: the image
  std::int64_t other_image = -1;  ///< duplicate: the image to keep
  std::int64_t identity = -1;     ///< label of the image, or one of the two identities
  /// The identity that the image belongs to, the second identity, or the label of other_image.
  std::int64_t other_identity = -1;
  std::vector<std::int64_t> images = {};  ///< two people: the images of the second person
  /// Certainty. Comparable only between findings of one kind.
  double score = 0;
  /// Fraction of findings with such a score that are right (calibration.h); 0: not known yet.
  double confidence = 0;
  /// The identity, or both together, have fewer than kManyImages.
  bool few_images = false;
  /// Names and values, for display.
  std::vector<std::pair<const char*, double>> evidence = {};
};

}  // namespace pfc
