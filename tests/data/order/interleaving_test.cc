#include "data/order/interleaving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace pfc {
namespace {

const std::vector<std::vector<std::int64_t>> kSets{
    {7}, {5, 5}, {1, 100}, {100, 1}, {17, 3, 40}, {1, 1, 1, 1}, {300, 200, 77, 5}};

std::vector<std::int64_t> sequence_of(const Interleaving& sequence) {
  std::vector<std::int64_t> images;
  for (std::int64_t p = 0; p < sequence.images(); ++p) images.push_back(sequence.at(p));
  return images;
}

std::vector<ImageRange> ranges_of(const Interleaving& sequence, const ImageRange& places) {
  std::vector<ImageRange> ranges;
  sequence.append_ranges(places, ranges);
  return ranges;
}

TEST(Interleaving, HasEveryImageOnce) {
  for (const auto& sets : kSets) {
    std::vector<std::int64_t> sorted = sequence_of(Interleaving(sets));
    std::ranges::sort(sorted);
    std::vector<std::int64_t> all(sorted.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
  }
}

TEST(Interleaving, KeepsTheOrderOfEachSetAndAdvancesAllEvenly) {
  for (const auto& sets : kSets) {
    const std::vector<std::int64_t> images = sequence_of(Interleaving(sets));
    std::int64_t first = 0;
    for (const std::int64_t count : sets) {
      std::int64_t seen = 0;
      for (std::size_t p = 0; p < images.size(); ++p) {
        if (images[p] >= first && images[p] < first + count) {
          EXPECT_EQ(images[p], first + seen);
          ++seen;
        }
        const double share = static_cast<double>(p + 1) * static_cast<double>(count) /
                             static_cast<double>(images.size());
        EXPECT_NEAR(static_cast<double>(seen), share, static_cast<double>(sets.size()));
      }
      first += count;
    }
  }
}

TEST(Interleaving, DividesARangeIntoOneRangeOfEachSet) {
  for (const auto& sets : kSets) {
    const Interleaving sequence(sets);
    for (std::int64_t first = 0; first < sequence.images(); first += 3) {
      for (std::int64_t end = first; end <= sequence.images(); end += 7) {
        std::vector<std::int64_t> expected, found;
        for (std::int64_t p = first; p < end; ++p) expected.push_back(sequence.at(p));
        std::ranges::sort(expected);
        const auto ranges = ranges_of(sequence, {first, end});
        EXPECT_LE(ranges.size(), sets.size());
        for (const ImageRange& range : ranges) {
          for (std::int64_t image = range.first; image < range.end; ++image) found.push_back(image);
        }
        EXPECT_EQ(found, expected);
      }
    }
  }
}

TEST(Interleaving, AcceptsSetsOfMoreImagesThan32BitsCount) {
  const std::int64_t large = std::int64_t{1} << 40;
  const Interleaving sequence({large, 3 * large});
  EXPECT_EQ(sequence.at(0), 0);
  EXPECT_EQ(sequence.at(4 * large - 1), 4 * large - 1);
  EXPECT_EQ(ranges_of(sequence, {2 * large, 2 * large + 4}),
            (std::vector<ImageRange>{{large / 2, large / 2 + 1},
                                     {large + 3 * large / 2, large + 3 * large / 2 + 3}}));
}

}  // namespace
}  // namespace pfc
