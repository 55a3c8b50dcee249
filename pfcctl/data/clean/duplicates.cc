#include "pfcctl/data/clean/duplicates.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace pfc {

namespace {

/// Number of pairs after which those that are not needed are removed.
constexpr std::size_t kMostPairs = 1 << 16;

}  // namespace

void keep_most_similar(std::vector<DuplicateImage>& found) {
  std::ranges::sort(found, {},
                    [](const DuplicateImage& d) { return std::tuple(d.drop, -d.cosine, d.keep); });
  const auto rest = std::ranges::unique(found, {}, &DuplicateImage::drop);
  found.erase(rest.begin(), rest.end());
}

/// Drops the image of the set that is not the test set; otherwise the one that does not agree with
/// its identity; otherwise the later one.
void DuplicateSearch::add(std::int64_t a, std::int64_t b, double cosine, Found& found) const {
  const auto rank = [&](std::int64_t image) {
    return std::tuple(!set_.labels().test(set_.labels().label(image)), !centres_.agrees(image),
                      image);
  };
  if (rank(a) < rank(b)) std::swap(a, b);
  if (set_.labels().test(set_.labels().label(a))) return;  // both
  found.push_back({.drop = a, .keep = b, .cosine = cosine});
  if (found.size() >= kMostPairs) keep_most_similar(found);
}

void DuplicateSearch::compare(std::int64_t image, std::span<const float> row, std::int64_t other,
                              Found& found) const {
  const double angle = angle_of(inner_product(row, centres_.of(other)));
  std::vector<float> near(set_.dimension());
  for (const std::int64_t theirs : set_.members().of(other)) {
    if (std::abs(centres_.angle(theirs) - angle) > angle_) continue;
    set_.read(theirs, near);
    const double cosine = inner_product(row, near);
    if (cosine >= duplicate_) add(image, theirs, cosine, found);
  }
}

std::vector<DuplicateImage> DuplicateSearch::among(std::int64_t identity,
                                                   std::span<const std::int64_t> others) const {
  const std::span<const std::int64_t> images = set_.members().of(identity);
  const std::vector<float> rows = set_.rows(images);
  const auto row = [&](std::size_t i) {
    return std::span(rows).subspan(i * set_.dimension(), set_.dimension());
  };
  Found found;
  for (std::size_t i = 0; i < images.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (std::abs(centres_.angle(images[i]) - centres_.angle(images[j])) > angle_) continue;
      const double cosine = inner_product(row(i), row(j));
      if (cosine >= duplicate_) add(images[i], images[j], cosine, found);
    }
    for (const std::int64_t other : others) compare(images[i], row(i), other, found);
  }
  keep_most_similar(found);
  return found;
}

std::vector<DuplicateImage> DuplicateSearch::with(std::int64_t image, std::int64_t other) const {
  std::vector<float> row(set_.dimension());
  set_.read(image, row);
  Found found;
  compare(image, row, other, found);
  return found;
}

}  // namespace pfc
