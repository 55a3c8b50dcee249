#include "data/order/interleaving.h"

#include <algorithm>

#include "common/error.h"

namespace pfc {

namespace {

__extension__ using Wide = __int128;  // for products of two image counts

/// Returns how many of the first `places` of `all` places belong to a set with `images` images.
std::int64_t spread(std::int64_t places, std::int64_t images, std::int64_t all) {
  return static_cast<std::int64_t>(Wide{places} * images / all);
}

}  // namespace

Interleaving::Interleaving(const std::vector<std::int64_t>& sets) {
  check(!sets.empty(), "Interleaving: no sets");
  std::int64_t images = 0;
  for (const std::int64_t count : sets) {
    check(count > 0, "Interleaving: a set without images");
    sets_.push_back({.first = images, .images_so_far = images + count});
    images += count;
  }
}

// The last set's places are spread evenly, and the sets before it share the remaining places.
std::int64_t Interleaving::at(std::int64_t place) const {
  for (std::size_t s = sets_.size() - 1; s > 0; --s) {
    const Set& set = sets_[s];
    const std::int64_t count = set.images_so_far - set.first;
    const std::int64_t before = spread(place, count, set.images_so_far);
    if (spread(place + 1, count, set.images_so_far) > before) return set.first + before;
    place -= before;
  }
  return place;
}

void Interleaving::append_ranges(const ImageRange& places, std::vector<ImageRange>& to) const {
  const auto begin = std::ssize(to);
  ImageRange rest = places;
  for (std::size_t s = sets_.size() - 1; s > 0; --s) {
    const Set& set = sets_[s];
    const std::int64_t count = set.images_so_far - set.first;
    const ImageRange of_set{spread(rest.first, count, set.images_so_far),
                            spread(rest.end, count, set.images_so_far)};
    if (of_set.size() > 0) to.push_back({set.first + of_set.first, set.first + of_set.end});
    rest = {rest.first - of_set.first, rest.end - of_set.end};
  }
  if (rest.size() > 0) to.push_back(rest);
  std::reverse(to.begin() + begin, to.end());
}

}  // namespace pfc
