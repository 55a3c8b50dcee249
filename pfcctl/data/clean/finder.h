// Finds suspected errors in the labels of a data set by its embeddings (docs/cleaning.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "pfcctl/data/clean/labelled_embeddings.h"
#include "pfcctl/data/clean/thresholds.h"
#include "pfcctl/data/clean/thumbnails.h"

namespace pfc {

enum class FindingKind {
  kWrongLabel,  ///< an image that belongs to another identity
  kStranger,    ///< an image that belongs neither to its identity nor to another one
  kSamePerson,  ///< two identities that are one person
  kTwoPeople,   ///< one identity that is two people
  kDuplicate,   ///< an image that is nearly the same as another one
  kLeaked,      ///< an identity that is a person of the test set
};
inline constexpr std::array kFindingNames = {"wrong_label", "stranger",  "same_person",
                                             "two_people",  "duplicate", "leaked"};

/// Identities with fewer images give less evidence, and are calibrated separately.
inline constexpr std::size_t kManyImages = 5;

/// Number of other identities with which the images of an identity are compared one by one.
inline constexpr std::int64_t kNearestIdentities = 16;

/// Name of an item of evidence for wrong labels and strangers: the mean cosine to the images of the
/// own identity.
inline constexpr const char* kSimilarityToOwn = "similarity_to_own";

struct Finding {
  FindingKind kind = FindingKind::kWrongLabel;
  std::int64_t image = -1;        ///< wrong label, stranger, duplicate: the image
  std::int64_t other_image = -1;  ///< duplicate: the image that is not dropped for this one
  std::int64_t identity = -1;     ///< label of the image, or one of the two identities
  /// The identity that the image belongs to, the second identity, or the label of other_image.
  std::int64_t other_identity = -1;
  std::vector<std::int64_t> images = {};  ///< two people: the images of the second person
  /// Strength of the evidence. Comparable only between findings of one kind.
  double score = 0;
  double confidence = 0;     ///< probability that the finding is right; 0 until computed
  bool few_images = false;   ///< the identity, or both together, have fewer than kManyImages
  bool same_pixels = false;  ///< duplicate: the pixels of both images are similar too
  /// Names and values, for display.
  std::vector<std::pair<const char*, double>> evidence = {};
};

struct FoundErrors {
  CleaningThresholds thresholds;
  std::vector<Finding> findings;  ///< in an order that does not depend on the number of threads
  std::vector<bool> agrees;       ///< [images]: the image agrees with its identity
};

/// Finds the errors. Identities of the test set are only compared with the others; nothing in them
/// is reported. Runs on `threads` threads (0: all cores), shows its progress, and throws after an
/// interrupt like Progress::show().
///
/// Memory in bytes, for C identities and N images of D numbers, without findings and `set`: 4 C D +
/// 150 C + 20 N, the embeddings of an identity for each thread, and about 300 MB. Takes 2 D C (C +
/// S) operations for the centres, where S is the number of suspected images plus at most 20,000
/// sampled ones, and O(n^2 D) for the n images of an identity at similar angles. `thresholds`:
/// those of image_thresholds(); computes `nearest` and `belongs`. `thumbnails`: of the same images,
/// or nullptr; they decide about near-duplicates.
FoundErrors find_errors(const LabelledEmbeddings& set, const CleaningThresholds& thresholds,
                        int threads, Thumbnails* thumbnails = nullptr);

}  // namespace pfc
