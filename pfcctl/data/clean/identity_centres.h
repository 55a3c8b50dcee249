// Robust centres of all identities, and how well each image agrees with its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "common/ordered_work.h"
#include "pfcctl/data/clean/labelled_embeddings.h"

namespace pfc {

/// Images within one identity that agree with each other, but not with its centre.
struct SecondPerson {
  std::int64_t identity = 0;
  std::vector<std::int64_t> images;  ///< at least two, ascending
  double within = 0;                 ///< mean cosine of two of these images
  double between = 0;                ///< mean cosine to the images that agree with the centre
};

/// Calls a function with the number of finished identities.
using ShowIdentities = std::function<void(std::int64_t done)>;

class IdentityCentres {
 public:
  /// Computes all centres (agreeing_rows.h). Runs on `threads` threads (0: all cores). Borrows
  /// `set`. Throws like LabelledEmbeddings::read().
  IdentityCentres(const LabelledEmbeddings& set, double same, int threads,
                  const ShowIdentities& show);

  /// Returns the centre, of unit length; zeros for an identity without images.
  [[nodiscard]] std::span<const float> of(std::int64_t identity) const {
    return std::span(centres_).subspan(static_cast<std::size_t>(identity) * d_, d_);
  }
  /// Returns the length of the mean of the images that agree: the factor from a cosine with the
  /// centre to the mean cosine with these images. 0 for an identity without images.
  [[nodiscard]] double length(std::int64_t identity) const {
    return lengths_[static_cast<std::size_t>(identity)];
  }
  /// Returns the number of images that agree.
  [[nodiscard]] std::int64_t agreeing(std::int64_t identity) const {
    return agreeing_[static_cast<std::size_t>(identity)];
  }
  /// Returns AgreeingRows::similarity of an image.
  [[nodiscard]] double similarity(std::int64_t image) const {
    return similarities_[static_cast<std::size_t>(image)];
  }
  /// Returns the angle between an image and its own centre, in radians.
  [[nodiscard]] double angle(std::int64_t image) const {
    return angles_[static_cast<std::size_t>(image)];
  }
  [[nodiscard]] bool agrees(std::int64_t image) const {
    return agrees_[static_cast<std::size_t>(image)] != 0;
  }
  [[nodiscard]] const std::vector<SecondPerson>& second_people() const { return second_people_; }

 private:
  void add(std::int64_t identity, double same, std::vector<SecondPerson>& second_people);

  const LabelledEmbeddings& set_;
  const std::size_t d_;
  std::vector<float> centres_, lengths_;      // [C, D], [C]
  std::vector<std::int64_t> agreeing_;        // [C]
  std::vector<float> similarities_, angles_;  // [N]
  std::vector<std::uint8_t> agrees_;          // [N]
  std::vector<SecondPerson> second_people_;   // by identity
};

/// Angle of a cosine, in radians.
double angle_of(double cosine);

/// Calls work(identity, result) for each identity of [0, identities) on several threads, and
/// take(result) and show() on the calling thread, in ascending order. A result belongs to several
/// identities.
template <class Result, class Work, class Take>
void for_identities(std::int64_t identities, int threads, const Work& work, const Take& take,
                    const ShowIdentities& show) {
  constexpr std::int64_t kTogether = 32;
  ordered_work<Result>((identities + kTogether - 1) / kTogether, threads,
                       [&](std::int64_t block) {
                         Result result;
                         const std::int64_t end = std::min(identities, (block + 1) * kTogether);
                         for (std::int64_t i = block * kTogether; i < end; ++i) work(i, result);
                         return result;
                       },
                       [&](std::int64_t block, Result result) {
                         take(std::move(result));
                         if (show) show(std::min(identities, (block + 1) * kTogether));
                       });
}

}  // namespace pfc
