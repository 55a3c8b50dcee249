// Robust centres of identities, and how well each image agrees with its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/ordered_work.h"
#include "pfcctl/data/clean/labelled_embeddings.h"
#include "pfcctl/data/progress.h"

namespace pfc {

/// The rows that agree with each other, and their mean.
struct AgreeingRows {
  std::vector<bool> kept;   ///< [n]: agrees with the other kept rows; at least one is true
  std::size_t count = 0;    ///< number of rows kept
  std::vector<float> mean;  ///< [D] of the rows kept; shorter than 1 unless they are equal
  /// [n]: mean cosine to the other rows that are kept; if there is none, to all other rows. 1 for
  /// a single row.
  std::vector<float> similarity;
};

/// Begins with the rows whose cosine to the medoid is at least `same`, and then keeps the rows
/// whose similarity is at least `same`, until nothing changes (at most four times). If fewer than
/// half are kept, tries the medoid of the others too, and returns the larger result. Takes O(n D).
/// rows: [n, D], of unit length, n > 0.
AgreeingRows agreeing_rows(std::span<const float> rows, std::size_t dimension, double same);

/// Returns the row with the largest mean cosine to the others; of several, the first.
std::size_t medoid_of(std::span<const float> rows, std::size_t dimension);

/// Images within one identity that agree with each other, but not with its centre.
struct SecondPerson {
  std::int64_t identity = 0;
  std::vector<std::int64_t> images;  ///< at least two, ascending
  double within = 0;                 ///< mean cosine of two of these images
  double between = 0;                ///< mean cosine to the images that agree with the centre
};

class IdentityCentres {
 public:
  /// An image and its own identity.
  struct Image {
    float similarity = 1;  ///< AgreeingRows::similarity
    float angle = 0;       ///< to the centre, in radians
    bool agrees = false;   ///< AgreeingRows::kept
  };

  /// Computes all centres on `threads` threads (0: all cores). Throws like
  /// LabelledEmbeddings::read().
  IdentityCentres(const LabelledEmbeddings& set, double same, int threads);

  /// Returns the centre, of unit length; zeros for an identity without images.
  [[nodiscard]] std::span<const float> of(std::int64_t identity) const {
    return std::span(centres_).subspan(static_cast<std::size_t>(identity) * d_, d_);
  }
  /// Returns the length of the mean of the images that agree. A cosine with the centre, times this
  /// length, is the mean cosine with these images. 0 for an identity without images.
  [[nodiscard]] double length(std::int64_t identity) const {
    return lengths_[static_cast<std::size_t>(identity)];
  }
  /// Returns the number of images that agree.
  [[nodiscard]] std::int64_t agreeing(std::int64_t identity) const {
    return agreeing_[static_cast<std::size_t>(identity)];
  }
  [[nodiscard]] const Image& image(std::int64_t image) const {
    return images_[static_cast<std::size_t>(image)];
  }
  /// By identity, ascending; not of the test set.
  [[nodiscard]] const std::vector<SecondPerson>& second_people() const { return second_people_; }

 private:
  void add(const LabelledEmbeddings& set, std::int64_t identity, double same,
           std::vector<SecondPerson>& second_people);

  const std::size_t d_;
  std::vector<float> centres_, lengths_;  // [C, D], [C]
  std::vector<std::int64_t> agreeing_;    // [C]
  std::vector<Image> images_;             // [N]
  std::vector<SecondPerson> second_people_;
};

/// Angle of a cosine, in radians.
double angle_of(double cosine);

/// Calls work(identity, result) for each identity of [0, identities) on several threads, and
/// take(result) on the calling thread, in ascending order. Consecutive identities share a result.
/// Shows "`doing`: N identities", and throws after an interrupt like Progress::show().
template <class Result, class Work, class Take>
void for_identities(const std::string& doing, std::int64_t identities, int threads,
                    const Work& work, const Take& take) {
  constexpr std::int64_t kTogether = 32;
  Progress progress(doing, "identities");
  ordered_work<Result>((identities + kTogether - 1) / kTogether, threads,
                       [&](std::int64_t block) {
                         Result result;
                         const std::int64_t end = std::min(identities, (block + 1) * kTogether);
                         for (std::int64_t i = block * kTogether; i < end; ++i) work(i, result);
                         return result;
                       },
                       [&](std::int64_t block, Result result) {
                         take(std::move(result));
                         progress.show(std::min(identities, (block + 1) * kTogether), identities);
                       });
}

}  // namespace pfc
