#include "pfcctl/data/clean/duplicates.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>

#include "pfcctl/interrupt_guard.h"

namespace pfc {

namespace {

constexpr double kAngleError = 1e-3;  // of angles computed from float32 numbers

/// Some images and their rows [images, D], of unit length.
struct Images {
  Images(const LabelledEmbeddings& set, std::span<const std::int64_t> images)
      : numbers(images), rows(set.rows(images)), d(set.dimension()) {}
  [[nodiscard]] std::size_t size() const { return numbers.size(); }
  [[nodiscard]] std::span<const float> row(std::size_t i) const {
    return std::span(rows).subspan(i * d, d);
  }
  std::span<const std::int64_t> numbers;
  std::vector<float> rows;
  std::size_t d;
};

class Comparison {
 public:
  explicit Comparison(const DuplicateSearch& search) : s_(search) {}

  void compare_with_each_other(const Images& images) {
    for (std::size_t i = 0; i < images.size(); ++i) {
      InterruptGuard::expect_none();
      for (std::size_t j = 0; j < i; ++j) {
        if (can_be_near(angle(images.numbers[i]), images.numbers[j])) {
          compare(images, i, images, j);
        }
      }
    }
  }

  /// Reads the images of `other` if one of them can be near.
  void compare_with(const Images& images, std::int64_t other) {
    const std::span<const std::int64_t> numbers = s_.set.members().of(other);
    std::unique_ptr<const Images> theirs;
    for (std::size_t i = 0; i < images.size(); ++i) {
      InterruptGuard::expect_none();
      const double angle = angle_of(inner_product(images.row(i), s_.centres.of(other)));
      for (std::size_t j = 0; j < numbers.size(); ++j) {
        if (!can_be_near(angle, numbers[j])) continue;
        if (theirs == nullptr) theirs = std::make_unique<const Images>(s_.set, numbers);
        compare(images, i, *theirs, j);
      }
    }
  }

  std::vector<DuplicateImage> result() {
    keep_most_similar(found_);
    return std::move(found_);
  }

 private:
  /// Returns the angle to the centre of the image's own identity.
  [[nodiscard]] double angle(std::int64_t image) const { return s_.centres.image(image).angle; }
  /// `angle_of_other`: of another image to the same centre.
  [[nodiscard]] bool can_be_near(double angle_of_other, std::int64_t image) const {
    return std::abs(angle_of_other - angle(image)) <= most_between_;
  }
  [[nodiscard]] bool is_test(std::int64_t image) const {
    return s_.set.labels().test(s_.set.labels().label(image));
  }

  /// Adds near-duplicates. Never drops a test image; prefers to drop one that does not agree with
  /// its identity, then the later one.
  void compare(const Images& a, std::size_t i, const Images& b, std::size_t j) {
    const double cosine = inner_product(a.row(i), b.row(j));
    if (cosine < s_.least_cosine) return;
    const auto rank = [&](std::int64_t image) {
      return std::tuple(!is_test(image), !s_.centres.image(image).agrees, image);
    };
    const auto [keep, drop] =
        std::minmax(a.numbers[i], b.numbers[j],
                    [&](std::int64_t x, std::int64_t y) { return rank(x) < rank(y); });
    if (is_test(drop)) return;  // both
    double correlation = 0;
    if (s_.thumbnails != nullptr) {
      const ImageLabels& labels = s_.set.labels();
      correlation = s_.thumbnails->correlation(labels.source(drop), labels.source(keep));
      if (correlation < kLeastCorrelation) return;
    }
    found_.push_back({.drop = drop, .keep = keep, .cosine = cosine, .correlation = correlation});
    if (found_.size() < most_pairs_) return;
    keep_most_similar(found_);
    most_pairs_ = std::max(most_pairs_, 2 * found_.size());
  }

  const DuplicateSearch& s_;
  /// Largest difference between the angles of near-duplicates to a common centre.
  const double most_between_ = angle_of(s_.least_cosine) + kAngleError;
  std::vector<DuplicateImage> found_;
  std::size_t most_pairs_ = 1 << 16;  // in found_, before pairs that are not needed are removed
};

}  // namespace

void keep_most_similar(std::vector<DuplicateImage>& found) {
  std::ranges::sort(found, {},
                    [](const DuplicateImage& d) { return std::tuple(d.drop, -d.cosine, d.keep); });
  const auto rest = std::ranges::unique(found, {}, &DuplicateImage::drop);
  found.erase(rest.begin(), rest.end());
}

std::vector<DuplicateImage> DuplicateSearch::among(std::int64_t identity,
                                                   std::span<const std::int64_t> others) const {
  const Images images(set, set.members().of(identity));
  Comparison comparison(*this);
  if (!set.labels().test(identity)) comparison.compare_with_each_other(images);
  for (const std::int64_t other : others) comparison.compare_with(images, other);
  return comparison.result();
}

std::vector<DuplicateImage> DuplicateSearch::between(std::span<const std::int64_t> images,
                                                     std::int64_t other) const {
  Comparison comparison(*this);
  comparison.compare_with(Images(set, images), other);
  return comparison.result();
}

}  // namespace pfc
