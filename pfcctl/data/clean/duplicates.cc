#include "pfcctl/data/clean/duplicates.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace pfc {

namespace {

constexpr double kAngleError = 1e-3;  // of angles computed from float32 numbers
/// Number of pairs after which keep_most_similar() runs, to save memory.
constexpr std::size_t kMostPairs = 1 << 16;

using Found = std::vector<DuplicateImage>;

/// Largest difference between the angles of near-duplicates to a common centre.
double most_between(const DuplicateSearch& s) { return angle_of(s.least_cosine) + kAngleError; }

/// Adds near-duplicates. Never drops a test image; prefers to drop one that does not agree with its
/// identity, then the later one.
void compare(const DuplicateSearch& s, std::int64_t a, std::span<const float> row_a, std::int64_t b,
             std::span<const float> row_b, Found& found) {
  const double cosine = inner_product(row_a, row_b);
  if (cosine < s.least_cosine) return;
  const auto is_test = [&](std::int64_t image) {
    return s.set.labels().test(s.set.labels().label(image));
  };
  const auto rank = [&](std::int64_t image) {
    return std::tuple(!is_test(image), !s.centres.image(image).agrees, image);
  };
  if (rank(a) < rank(b)) std::swap(a, b);
  if (is_test(a)) return;  // both
  found.push_back({.drop = a, .keep = b, .cosine = cosine});
  if (found.size() >= kMostPairs) keep_most_similar(found);
}

void compare_all(const DuplicateSearch& s, std::int64_t image, std::span<const float> row,
                 std::int64_t other, Found& found) {
  const double angle = angle_of(inner_product(row, s.centres.of(other))), most = most_between(s);
  std::vector<float> near(s.set.dimension());
  for (const std::int64_t theirs : s.set.members().of(other)) {
    if (std::abs(angle - s.centres.image(theirs).angle) > most) continue;
    s.set.read(theirs, near);
    compare(s, image, row, theirs, near, found);
  }
}

}  // namespace

void keep_most_similar(std::vector<DuplicateImage>& found) {
  std::ranges::sort(found, {},
                    [](const DuplicateImage& d) { return std::tuple(d.drop, -d.cosine, d.keep); });
  const auto rest = std::ranges::unique(found, {}, &DuplicateImage::drop);
  found.erase(rest.begin(), rest.end());
}

std::vector<DuplicateImage> DuplicateSearch::among(std::int64_t identity,
                                                   std::span<const std::int64_t> others) const {
  const std::span<const std::int64_t> images = set.members().of(identity);
  const std::vector<float> rows = set.rows(images);
  const auto row = [&](std::size_t i) {
    return std::span(rows).subspan(i * set.dimension(), set.dimension());
  };
  const auto angle = [&](std::size_t i) { return centres.image(images[i]).angle; };
  const double most = most_between(*this);
  Found found;
  for (std::size_t i = 0; i < images.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (std::abs(angle(i) - angle(j)) > most) continue;
      compare(*this, images[i], row(i), images[j], row(j), found);
    }
    for (const std::int64_t other : others) compare_all(*this, images[i], row(i), other, found);
  }
  keep_most_similar(found);
  return found;
}

std::vector<DuplicateImage> DuplicateSearch::with(std::int64_t image, std::int64_t other) const {
  std::vector<float> row(set.dimension());
  set.read(image, row);
  Found found;
  compare_all(*this, image, row, other, found);
  return found;
}

}  // namespace pfc
