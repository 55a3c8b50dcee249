#include "data/order/sequential_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "data/order/keyed_permutation.h"
#include "tests/data/order/chi_squared.h"

namespace pfc {
namespace {

using testing::chi_squared_deviations;
using Images = std::vector<std::int64_t>;

TEST(KeyedPermutation, HasEveryNumberOnce) {
  for (std::uint64_t size = 1; size < 400; ++size) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t x = 0; x < size; ++x) seen.insert(permute_keyed(size * 77, size, x));
    EXPECT_EQ(seen.size(), size);
    EXPECT_LT(*seen.rbegin(), size);
  }
}

TEST(KeyedPermutation, PutsEveryNumberAtEveryPositionEquallyOften) {
  for (const std::uint64_t size : {3u, 8u, 20u, 100u}) {
    std::vector<double> counts(size * size);
    for (std::uint64_t key = 0; key < 6'000; ++key) {
      for (std::uint64_t x = 0; x < size; ++x) {
        ++counts[x * size + permute_keyed(keyed_permutation::mix(key), size, x)];
      }
    }
    EXPECT_LT(std::abs(chi_squared_deviations(counts)), 5) << size;
  }
}

TEST(KeyedPermutation, ReachesEveryPermutationOfFewNumbersEquallyOften) {
  std::vector<double> counts(24);
  for (std::uint64_t key = 0; key < 12'000; ++key) {
    std::size_t number = 0;  // in the factorial number system
    for (std::uint64_t i = 0; i < 4; ++i) {
      std::size_t smaller = 0;
      for (std::uint64_t j = i + 1; j < 4; ++j) {
        smaller += permute_keyed(keyed_permutation::mix(key), 4, j) <
                   permute_keyed(keyed_permutation::mix(key), 4, i);
      }
      number = number * (4 - i) + smaller;
    }
    ++counts[number];
  }
  EXPECT_LT(std::abs(chi_squared_deviations(counts)), 5);
}

struct Case {
  std::vector<std::int64_t> sets;
  std::int64_t global_batch, window_images;
};
const std::vector<Case> kCases{{{103}, 10, 30},   {{103}, 10, 1000},      {{1000}, 16, 100},
                               {{60, 47}, 8, 40}, {{500, 3, 90}, 12, 24}, {{1000}, 1, 50},
                               {{16}, 16, 16}};

std::int64_t images_in(const Case& c) {
  return std::accumulate(c.sets.begin(), c.sets.end(), std::int64_t{0});
}

SequentialOrder order_of(const Case& c, std::uint64_t seed = 5, bool shuffle = true) {
  return {c.sets,
          {.global_batch = c.global_batch,
           .window_images = c.window_images,
           .seed = seed,
           .shuffle = shuffle}};
}

Images epoch_of(const SequentialOrder& order, std::int64_t epoch, std::int64_t images) {
  Images shown;
  for (std::int64_t p = 0; p < images; ++p) shown.push_back(order.at(epoch, p));
  return shown;
}

TEST(SequentialOrder, ShowsEveryImageOnce) {
  for (const Case& c : kCases) {
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      Images shown = epoch_of(order_of(c), epoch, images_in(c));
      std::ranges::sort(shown);
      Images all(shown.size());
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(shown, all);
    }
  }
}

TEST(SequentialOrder, DependsOnSeedAndEpoch) {
  const Case c = kCases[2];
  EXPECT_EQ(epoch_of(order_of(c), 2, 1000), epoch_of(order_of(c), 2, 1000));
  EXPECT_NE(epoch_of(order_of(c), 2, 1000), epoch_of(order_of(c), 3, 1000));
  EXPECT_NE(epoch_of(order_of(c), 2, 1000), epoch_of(order_of(c, 6), 2, 1000));
}

TEST(SequentialOrder, IsTheFileOrderWithoutShuffle) {
  const SequentialOrder order = order_of(kCases[0], 5, false);
  for (std::int64_t p = 0; p < 103; ++p) EXPECT_EQ(order.at(3, p), p);
}

/// Returns the images that at() gives at a worker's positions of a window.
Images shown_by(const SequentialOrder& order, const Case& c, std::int64_t epoch,
                std::int64_t window, const ImageRange& lanes) {
  Images images;
  for (std::int64_t row = 0; row < images_in(c) / c.global_batch; ++row) {
    if (order.window_of(row) != window) continue;
    for (std::int64_t lane = lanes.first; lane < lanes.end; ++lane) {
      images.push_back(order.at(epoch, row * c.global_batch + lane));
    }
  }
  std::ranges::sort(images);
  return images;
}

TEST(SequentialOrder, ReturnsTheImagesThatAWorkerReadsForAWindow) {
  for (const Case& c : kCases) {
    for (const bool shuffle : {true, false}) {
      const SequentialOrder order = order_of(c, 7, shuffle);
      for (std::int64_t window = 0; window < order.windows(); ++window) {
        for (const int workers : {1, 2, 4}) {
          if (c.global_batch % workers != 0) continue;
          const std::int64_t b = c.global_batch / workers;
          for (std::int64_t rank = 0; rank < workers; ++rank) {
            const ImageRange lanes{rank * b, rank * b + b};
            Images read;
            for (const ImageRange& range : order.images_of(1, window, lanes)) {
              for (std::int64_t i = range.first; i < range.end; ++i) read.push_back(i);
            }
            EXPECT_EQ(read, shown_by(order, c, 1, window, lanes));
          }
        }
      }
    }
  }
}

TEST(SequentialOrder, AssignsOneRangeOfEachWindowAndSetToAWorker) {
  for (const Case& c : kCases) {
    const SequentialOrder order = order_of(c);
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      std::size_t more = 0;
      for (std::int64_t window = 0; window < order.windows(); ++window) {
        const auto ranges = order.images_of(epoch, window, {0, c.global_batch});
        if (ranges.size() > c.sets.size()) ++more;
      }
      EXPECT_LE(more, 1u) << "only the window across the end may have a gap";
    }
  }
}

TEST(SequentialOrder, HasWindowsOfNoMoreImagesThanAllowed) {
  for (const Case& c : kCases) {
    EXPECT_LE(order_of(c).rows_of_window() * c.global_batch,
              std::max(c.window_images, c.global_batch));
  }
}

TEST(SequentialOrder, SkipsDifferentImagesInEachEpoch) {
  const Case c{{1000}, 300, 1000};  // 100 images do not fill a batch
  const SequentialOrder order = order_of(c);
  std::set<std::int64_t> left_out;
  for (std::int64_t epoch = 0; epoch < 60; ++epoch) {
    for (std::int64_t p = 900; p < 1000; ++p) left_out.insert(order.at(epoch, p));
  }
  EXPECT_GT(left_out.size(), 950u);
}

TEST(SequentialOrder, MixesTheImagesOfAWindow) {
  // A single file with 4 windows of 100 batches of 50 images. The row in which an image is used
  // must not depend on the image's place in its lane.
  const Case c{{20'000}, 50, 5'000};
  const SequentialOrder order = order_of(c);
  std::vector<double> counts(10 * 10);
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    for (std::int64_t lane = 0; lane < 50; ++lane) {
      Images of_lane;
      for (std::int64_t row = 0; row < 100; ++row) {
        of_lane.push_back(order.at(epoch, row * 50 + lane));
      }
      Images sorted = of_lane;
      std::ranges::sort(sorted);
      // Leaves out windows that cross the end of the file.
      if (sorted.back() - sorted.front() != 99) continue;
      for (std::int64_t row = 0; row < 100; ++row) {
        const auto place = of_lane[static_cast<std::size_t>(row)] - sorted.front();
        ++counts[static_cast<std::size_t>(row / 10 * 10 + place / 10)];
      }
    }
  }
  EXPECT_LT(std::abs(chi_squared_deviations(counts)), 15);
}

}  // namespace
}  // namespace pfc
