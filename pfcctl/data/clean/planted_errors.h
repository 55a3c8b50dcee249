// Plants errors in the labels of a data set, and judges what is found of them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pfcctl/data/clean/finder.h"

namespace pfc {

enum class ErrorKind { kFlipped, kSplit, kMerged, kCopied, kLeaked };
inline constexpr std::array kErrorNames = {"wrong_label, stranger", "same_person", "two_people",
                                           "duplicate", "leaked"};  ///< what should be found

struct PlantedError {
  ErrorKind kind = ErrorKind::kFlipped;
  std::int64_t image = -1;     ///< flipped or copied
  std::int64_t identity = -1;  ///< split, leaked: label of the second half; merged: of the pair
  bool small = false;          ///< the person or, if merged, one of the two, had under 5 images
};

/// Labels with planted errors. "Before" means before planting.
struct PlantedErrors {
  ImageLabels labels;
  std::vector<PlantedError> errors;
  std::vector<std::int64_t> person;  ///< [images]: the label before; that of the source for a copy
  std::vector<std::int64_t> home;    ///< [labels before]: the label that the person has now
  /// [images before]: agrees with its identity, and no finding names it. [labels before]: has two
  /// agreeing images, and no finding is about the identity itself.
  std::vector<bool> trusted_images, trusted_people;
};

/// Plants errors at random places, which `seed` determines. Splits, merges
/// and leaks trusted people; flips and copies trusted images:
/// - flipped: images get a random other label; 1 % of the images. Also all images of 0.1 % of the
///   people, who are then strangers;
/// - split: half of the images of 1 % of the people get a new label;
/// - merged: 1 % of the people get the label of another one;
/// - copied: 1 % of the images get a copy, whose cosine with the image is 0.98 to 1. Each fourth
///   copy gets a random other label;
/// - leaked, if there is a test set: half of the images of 1 % of the people move to it.
/// These numbers are at least 100 (strangers: 10), but at most a sixteenth of the people or images;
/// nothing is planted if there are fewer than 16 trusted people. A person is split, leaked, merged
/// or made a stranger at most once. REQUIRES: the labels have no copies, and `found` is what was
/// found in them.
PlantedErrors plant_errors(const ImageLabels& labels, const FoundErrors& found, std::uint64_t seed);

/// A finding in labels with planted errors, and whether it is right.
struct JudgedFinding {
  Finding finding;
  bool right = false;
  std::size_t error = 0;  ///< if right: index in PlantedErrors::errors
};

/// Returns the findings that are right about a planted error, and those that are wrong. Leaves out
/// findings that are right about something else, and findings that may be real errors: those about
/// images or people that are not trusted, and those that give several images of one person the same
/// other label. An identity belongs to the person of most of its images.
std::vector<JudgedFinding> judge(const PlantedErrors& planted, std::vector<Finding> findings);

}  // namespace pfc
