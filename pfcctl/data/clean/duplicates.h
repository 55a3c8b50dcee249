// Finds images that are nearly the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pfcctl/data/clean/identity_centres.h"
#include "pfcctl/data/clean/thumbnails.h"

namespace pfc {

/// An image to drop and a nearly equal one to keep.
struct DuplicateImage {
  std::int64_t drop = 0, keep = 0;
  double cosine = 0;
  double correlation = 0;  ///< of the pixels (thumbnails.h); 0 without images
};

/// Compares images with images of their own and of other identities. Thread-safe. Images that
/// cannot be near-duplicates by their angles to a common centre are not compared: the angle between
/// two images is at least the difference of their angles to any third vector.
struct DuplicateSearch {
  const LabelledEmbeddings& set;
  const IdentityCentres& centres;
  double least_cosine = 1;
  Thumbnails* thumbnails = nullptr;  ///< if given, the pixels must be similar too

  /// Compares the images of an identity with each other and with those of `others`. Returns each
  /// image to drop once (keep_most_similar()). Reads each identity at most once. Takes O(n^2 D) for
  /// n images at similar angles. Throws after an interrupt like end_at_interrupt().
  [[nodiscard]] std::vector<DuplicateImage> among(std::int64_t identity,
                                                  std::span<const std::int64_t> others) const;
  /// Compares images of any identities with those of `other`, in the same way.
  [[nodiscard]] std::vector<DuplicateImage> between(std::span<const std::int64_t> images,
                                                    std::int64_t other) const;
};

/// Sorts by image to drop. For each of these, keeps the pair with the largest cosine; if equal, the
/// one with the smallest `keep`.
void keep_most_similar(std::vector<DuplicateImage>& found);

}  // namespace pfc
