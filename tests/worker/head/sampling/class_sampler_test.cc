#include "worker/head/sampling/class_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "common/error.h"
#include "kernels/math/philox.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using Classes = std::vector<std::int64_t>;

class ClassSampler : public ::testing::Test {
 protected:
  [[nodiscard]] Classes sample(double rate, int rank, int world_size, const Classes& labels,
                               std::int64_t step = 7, std::int64_t hold = 1) const {
    return sample_classes({.classes = kClasses, .rate = rate, .hold = hold, .seed = 3},
                          shard_of(kClasses, rank, world_size), labels, step);
  }
  /// Draws blocks of `unit` classes.
  [[nodiscard]] Classes blocks(double rate, std::int64_t unit, int rank, int world_size,
                               const Classes& labels, std::int64_t step = 7,
                               std::int64_t hold = 1) const {
    return sample_classes(
        {.classes = kClasses, .rate = rate, .hold = hold, .unit = unit, .seed = 3},
        shard_of(kClasses, rank, world_size, unit), labels, step);
  }
  [[nodiscard]] Classes held(double rate, std::int64_t step, std::int64_t hold) const {
    return sample(rate, 0, 1, {}, step, hold);
  }
  static double in_both(const Classes& a, const Classes& b) {
    Classes both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return static_cast<double>(both.size());
  }
  static constexpr std::int64_t kClasses = 100'003;
  const Classes labels_{5, 99'999, 5, 50'000, 0, 100'002};
};

TEST_F(ClassSampler, SamplesTheSameClassesForAnyNumberOfWorkers) {
  for (const auto& [rate, hold] : {std::pair{1.0, 1}, {0.1, 1}, {0.1, 4}, {0.0, 1}}) {
    const Classes whole = sample(rate, 0, 1, labels_, 7, hold);
    for (const int world_size : {2, 3, 5, 7}) {
      Classes together;
      for (int rank = 0; rank < world_size; ++rank) {
        const Classes part = sample(rate, rank, world_size, labels_, 7, hold);
        together.insert(together.end(), part.begin(), part.end());
      }
      EXPECT_EQ(together, whole) << rate << " " << hold << " " << world_size;
    }
  }
}

// Small shards begin and end within a block of four classes. Some have no drawn class.
TEST_F(ClassSampler, SamplesTheSameClassesInShardsOfAnySize) {
  const SampleOptions options{.classes = 200, .rate = 0.3, .seed = 3};
  const Classes labels{0, 17, 18, 101, 102, 199};
  const Classes whole = sample_classes(options, {0, 200}, labels, 7);
  for (const std::int64_t size : {1, 2, 3, 5, 6, 7, 33}) {
    Classes together;
    for (std::int64_t begin = 0; begin < 200; begin += size) {
      const RowRange shard{begin, std::min<std::int64_t>(200, begin + size)};
      const Classes part = sample_classes(options, shard, labels, 7);
      together.insert(together.end(), part.begin(), part.end());
    }
    EXPECT_EQ(together, whole) << size;
  }
}

TEST_F(ClassSampler, DrawsTheBlocksWhoseIndicesItWouldDrawAsClasses) {
  for (const std::int64_t unit : {2, 8, 64}) {
    for (const std::int64_t hold : {1, 5}) {
      const std::int64_t count = blocks_of(kClasses, unit);
      Classes expected;
      for (const std::int64_t block : sample_classes(
               {.classes = count, .rate = 0.1, .hold = hold, .seed = 3}, {0, count}, {}, 7)) {
        for (std::int64_t c = block * unit; c < std::min((block + 1) * unit, kClasses); ++c) {
          expected.push_back(c);
        }
      }
      EXPECT_EQ(blocks(0.1, unit, 0, 1, {}, 7, hold), expected) << unit << " " << hold;
      const auto share = static_cast<double>(expected.size()) / kClasses;
      const double deviation = std::sqrt(0.1 * 0.9 * static_cast<double>(unit) / kClasses);
      EXPECT_NEAR(share, 0.1, 5 * deviation);
    }
  }
}

TEST_F(ClassSampler, DrawsTheSameBlocksForAnyNumberOfWorkers) {
  for (const double rate : {1.0, 0.1, 0.0}) {
    for (const std::int64_t unit : {2, 8, 64}) {
      const Classes whole = blocks(rate, unit, 0, 1, labels_);
      for (const int world_size : {2, 3, 7}) {
        Classes together;
        for (int rank = 0; rank < world_size; ++rank) {
          const Classes part = blocks(rate, unit, rank, world_size, labels_);
          together.insert(together.end(), part.begin(), part.end());
        }
        EXPECT_EQ(together, whole) << rate << " " << unit << " " << world_size;
      }
    }
  }
}

TEST_F(ClassSampler, ALabelDoesNotActivateItsBlock) {
  EXPECT_EQ(blocks(0, 8, 0, 1, labels_), (Classes{0, 5, 50'000, 99'999, 100'002}));
  Classes expected = blocks(0.1, 8, 0, 1, {});
  for (const std::int64_t label : labels_) expected.push_back(label);
  std::ranges::sort(expected);
  const auto rest = std::ranges::unique(expected);
  expected.erase(rest.begin(), rest.end());
  EXPECT_EQ(blocks(0.1, 8, 0, 1, labels_), expected);
}

TEST_F(ClassSampler, DrawsEveryClassAgainAfterHoldSteps) {
  constexpr double kRate = 0.25;
  constexpr std::int64_t kFew = 1003;
  for (const std::int64_t hold : {1, 2, 3, 8, 1000}) {
    for (std::int64_t step = 0; step < 20; ++step) {
      Classes expected;
      for (std::int64_t c = 0; c < kFew; ++c) {
        const auto block = static_cast<std::uint64_t>(c / 4);
        const std::uint64_t first = random_words(3, Stream::kSamplePhase, 0, block).x[0];
        const auto phase =
            static_cast<std::int64_t>((first * static_cast<std::uint64_t>(hold)) >> 32);
        const auto draw = static_cast<std::uint32_t>((step + phase) / hold);
        const float u = uniform_of(3, Stream::kClassSampling, draw, static_cast<std::uint64_t>(c));
        if (u < kRate) expected.push_back(c);
      }
      const SampleOptions options{.classes = kFew, .rate = kRate, .hold = hold, .seed = 3};
      ASSERT_EQ(sample_classes(options, {0, kFew}, {}, step), expected) << hold << " " << step;
    }
  }
}

// In every step (1 - rate) / hold of the drawn classes leave the sample, and as many others join
// it.
TEST_F(ClassSampler, HoldKeepsTheRateAndReducesTheChanges) {
  constexpr double kRate = 0.1;
  for (const std::int64_t hold : {1, 4, 16}) {
    for (const std::int64_t step : {0, 7, 1'000'000}) {
      const Classes before = held(kRate, step, hold);
      const double expected = kRate * kClasses;
      EXPECT_NEAR(static_cast<double>(before.size()), expected, 5 * std::sqrt(expected));
      for (const std::int64_t later : {std::int64_t{1}, hold / 2 + 1, hold, 3 * hold}) {
        const double drawn_again =
            std::min(1.0, static_cast<double>(later) / static_cast<double>(hold));
        const double stays = expected * (1 - drawn_again * (1 - kRate));
        // The binomial deviation, times 2 because four adjacent classes are drawn at the same time.
        const double deviation = 2 * std::sqrt(std::min(stays, expected - stays));
        EXPECT_NEAR(in_both(before, held(kRate, step + later, hold)), stays, 5 * deviation)
            << hold << " " << step << " " << later;
      }
    }
  }
}

// With a schedule, each step compares the held random numbers with its own rate.
TEST_F(ClassSampler, HeldClassesFollowTheRateOfTheStep) {
  const Classes before = held(0.1, 7, 8);
  const auto count = static_cast<double>(before.size());
  EXPECT_NEAR(in_both(before, held(0.3, 8, 8)), count * (1 - 0.7 / 8), 5 * std::sqrt(count / 8));
  const Classes fewer = held(0.03, 7, 8);
  EXPECT_TRUE(std::ranges::includes(before, fewer));
  EXPECT_EQ(held(1, 8, 8).size(), static_cast<std::size_t>(kClasses));
}

TEST_F(ClassSampler, SamplesAllClassesAtRateOneAndOnlyLabelsAtRateZero) {
  EXPECT_EQ(sample(1, 0, 1, labels_).size(), static_cast<std::size_t>(kClasses));
  EXPECT_EQ(sample(0, 0, 1, labels_), (Classes{0, 5, 50'000, 99'999, 100'002}));
  EXPECT_EQ(sample(0, 1, 3, labels_), (Classes{50'000}));
}

TEST_F(ClassSampler, ReturnsTheSampledShareSortedAndWithoutDuplicates) {
  for (const double rate : {0.01, 0.1, 0.7}) {
    const Classes active = sample(rate, 0, 1, {});
    const double expected = rate * kClasses;
    EXPECT_NEAR(static_cast<double>(active.size()), expected, 5 * std::sqrt(expected * (1 - rate)));
    EXPECT_TRUE(std::is_sorted(active.begin(), active.end()));
    EXPECT_EQ(std::adjacent_find(active.begin(), active.end()), active.end());
  }
}

TEST_F(ClassSampler, SamplesEveryClassEquallyOftenOverSteps) {
  std::vector<int> times(1000);
  for (std::int64_t step = 0; step < 1000; ++step) {
    for (const std::int64_t c :
         sample_classes({.classes = 1000, .rate = 0.2, .seed = 9}, {0, 1000}, {}, step)) {
      ++times[static_cast<std::size_t>(c)];
    }
  }
  double chi_squared = 0;  // of 1000 binomial counts: mean 1000, deviation 45
  for (const int t : times) chi_squared += (t - 200.0) * (t - 200.0) / (1000 * 0.2 * 0.8);
  EXPECT_NEAR(chi_squared, 1000, 5 * 45);
}

TEST_F(ClassSampler, SamplesNeighboursIndependently) {
  const Classes active = sample(0.1, 0, 1, {});
  std::int64_t pairs = 0;
  for (std::size_t i = 1; i < active.size(); ++i) pairs += active[i] - active[i - 1] == 1 ? 1 : 0;
  const double expected = 0.01 * kClasses;
  EXPECT_NEAR(static_cast<double>(pairs), expected, 5 * std::sqrt(expected));
}

TEST_F(ClassSampler, SampleDependsOnStepAndSeed) {
  const Classes active = sample(0.1, 0, 1, {});
  EXPECT_EQ(sample(0.1, 0, 1, {}), active);
  const double expected = 0.01 * kClasses;  // independent draws
  EXPECT_NEAR(in_both(active, sample(0.1, 0, 1, {}, 8)), expected, 5 * std::sqrt(expected));
  const Classes other_seed =
      sample_classes({.classes = kClasses, .rate = 0.1, .seed = 4}, {0, kClasses}, {}, 7);
  EXPECT_NEAR(in_both(active, other_seed), expected, 5 * std::sqrt(expected));
}

/// Neighbours of each class: those with the next larger positions.
ClassNeighbours next_classes(std::int64_t classes, std::int64_t degree) {
  ClassNeighbours next{.degree = degree, .table = {}};
  for (std::int64_t c = 0; c < classes; ++c) {
    for (std::int64_t i = 1; i <= degree; ++i) {
      next.table.push_back(static_cast<std::int32_t>((c + i) % classes));
    }
  }
  return next;
}

TEST_F(ClassSampler, AddsTheNearestNeighboursOfAllLabelsFirst) {
  const ClassNeighbours next = next_classes(1000, 4);
  const Classes labels{500, 10, 500, 999};
  const auto certain = [&](double rate, std::int64_t unit = 1) {
    return add_neighbours({.classes = 1000, .rate = rate, .unit = unit}, next, labels, 0);
  };
  // Of the 997 other classes, 0.4 % to 2.7 % are drawn, and neighbours replace half of these.
  EXPECT_EQ(certain(0.001).classes, (Classes{10, 500, 999}));
  // In step 0 the order of the labels is 999, 10, 500.
  EXPECT_EQ(certain(0.0041).classes, (Classes{0, 10, 11, 500, 999}));
  EXPECT_EQ(certain(0.009).classes, (Classes{0, 1, 10, 11, 500, 501, 999}));
  EXPECT_EQ(certain(0.027).classes,
            (Classes{0, 1, 2, 3, 10, 11, 12, 13, 14, 500, 501, 502, 503, 504, 999}));
  EXPECT_EQ(certain(0.017, 4).classes, (Classes{0, 1, 2, 3, 8, 9, 10, 11, 500, 999}));
  EXPECT_EQ(certain(0).classes, (Classes{10, 500, 999}));
  EXPECT_EQ(certain(1).rate, 1);
  const CertainClasses without = add_neighbours({.classes = 1000, .rate = 0.2}, {}, labels, 0);
  EXPECT_EQ(without.classes, (Classes{10, 500, 999}));
  EXPECT_EQ(without.rate, 0.2);
}

TEST_F(ClassSampler, NeighboursDoNotChangeTheExpectedNumberOfActiveClasses) {
  ClassNeighbours next = next_classes(kClasses, 8);
  Classes labels;
  for (std::int64_t i = 0; i < 300; ++i) labels.push_back(i * 331);
  for (const auto& [rate, unit] : {std::pair{0.01, 1}, {0.1, 1}, {0.1, 8}}) {
    const SampleOptions options{.classes = kClasses, .rate = rate, .unit = unit, .seed = 3};
    const CertainClasses certain = add_neighbours(options, next, labels, 0);
    EXPECT_GT(certain.classes.size(), 790u);
    SampleOptions lower = options;
    lower.rate = certain.rate;
    double random = 0, hard = 0;
    for (std::int64_t step = 0; step < 40; ++step) {
      const Classes all = sample_classes(lower, {0, kClasses}, certain.classes, step);
      ASSERT_TRUE(std::ranges::includes(all, certain.classes));
      hard += static_cast<double>(all.size());
      random += static_cast<double>(sample_classes(options, {0, kClasses}, labels, step).size());
      Classes together;
      for (const int rank : {0, 1, 2}) {
        const RowRange shard = shard_of(kClasses, rank, 3, unit);
        const Classes part = sample_classes(lower, shard, certain.classes, step);
        together.insert(together.end(), part.begin(), part.end());
      }
      ASSERT_EQ(together, all);
    }
    const double deviation = std::sqrt(40 * 2 * rate * kClasses * unit);  // of the difference
    EXPECT_NEAR(hard, random, 4 * deviation) << rate << " " << unit;
  }
}

TEST_F(ClassSampler, AddsNeighboursOfAllLabelsOfASampleAndSkipsMissingOnes) {
  ClassNeighbours next = next_classes(100, 2);
  next.table[2 * 50] = -1;
  const SampleOptions options{.classes = 100, .rate = 0.3, .labels_per_image = 2};
  EXPECT_EQ(add_neighbours(options, next, Classes{50, 70, 20, -1}, 0).classes,
            (Classes{20, 21, 22, 50, 52, 70, 71, 72}));
  EXPECT_THAT(testing::message_of<InputError>([&] {
                static_cast<void>(add_neighbours(options, next, Classes{1, 2, 3, 100}, 0));
              }),
              ::testing::HasSubstr("label 100 of sample 1"));
}

TEST_F(ClassSampler, AddsNoNeighboursIfEveryClassIsALabel) {
  const CertainClasses certain =
      add_neighbours({.classes = 5, .rate = 0.3}, next_classes(5, 2), Classes{4, 3, 2, 1, 0}, 1);
  EXPECT_EQ(certain.classes, (Classes{0, 1, 2, 3, 4}));
  EXPECT_EQ(certain.rate, 0.3);
}

// Only 9 of the 20 labels' nearest neighbours fit.
TEST_F(ClassSampler, CutsOffTheNeighboursOfOtherLabelsInEachStep) {
  const ClassNeighbours next = next_classes(1000, 2);
  Classes labels;
  for (std::int64_t i = 0; i < 20; ++i) labels.push_back(i * 50);
  const SampleOptions options{.classes = 1000, .rate = 0.019, .seed = 7};
  std::vector<int> times(20);
  for (std::int64_t step = 1; step <= 400; ++step) {
    const CertainClasses certain = add_neighbours(options, next, labels, step);
    ASSERT_EQ(certain.classes, add_neighbours(options, next, labels, step).classes);
    ASSERT_EQ(certain.classes.size(), 29u);
    for (std::size_t i = 0; i < 20; ++i) {
      times[i] += std::ranges::binary_search(certain.classes, labels[i] + 1) ? 1 : 0;
    }
  }
  // Each has probability 9 / 20. Six standard deviations of 400 draws are 60.
  for (const int each : times) EXPECT_NEAR(each, 180, 60);
}

TEST_F(ClassSampler, LimitsTheExpectedNeighbours) {
  EXPECT_EQ(most_neighbours(0.1, 1000, 30), 30);
  EXPECT_EQ(most_neighbours(0.1, 1000, 300), 50);
  EXPECT_EQ(most_neighbours(0, 1000, 300), 0);
}

TEST_F(ClassSampler, NamesALabelThatNoWorkerOwns) {
  const auto message = [&](std::int64_t label) {
    return testing::message_of<InputError>([&] {
      static_cast<void>(sample(0.5, 0, 2, {1, 2, label}));
    });
  };
  EXPECT_THAT(message(100'003), ::testing::HasSubstr("label 100003 of sample 2"));
  EXPECT_THAT(message(-1), ::testing::HasSubstr("outside 0 .. 100002 (100003 classes)"));
}

TEST_F(ClassSampler, FindsEverySampleOfTheShardByItsIndex) {
  const Classes active{10, 12, 15};
  const std::vector<Positive> found =
      find_positives({10, 20}, active, std::vector<std::int64_t>{15, 3, 10, 15, 20});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].index, 0);
  EXPECT_EQ(found[0].sample, 2);
  EXPECT_EQ(found[1].index, 2);
  EXPECT_EQ(found[1].sample, 0);
  EXPECT_EQ(found[2].sample, 3);
  EXPECT_THROW(static_cast<void>(find_positives({10, 20}, active, std::vector<std::int64_t>{11})),
               std::logic_error);
}

TEST_F(ClassSampler, TakesAllLabelsOfASample) {
  const Classes labels{15, 11, -1, 12, -1, -1, 3, 15, 10};  // of three samples
  const SampleOptions options{.classes = 16, .rate = 0, .labels_per_image = 3};
  EXPECT_EQ(sample_classes(options, {10, 16}, labels, 7), (Classes{10, 11, 12, 15}));
  EXPECT_EQ(sample_classes(options, {0, 10}, labels, 7), (Classes{3}));
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const Positive& p : find_positives({10, 16}, Classes{10, 11, 12, 15}, labels, 3)) {
    found.emplace_back(p.index, p.sample);
  }
  EXPECT_THAT(found, ::testing::ElementsAre(std::pair(0, 2), std::pair(1, 0), std::pair(2, 1),
                                            std::pair(3, 0), std::pair(3, 2)));
  const auto refusal = [&](const Classes& bad) {
    return testing::message_of<InputError>([&] {
      static_cast<void>(sample_classes(options, {0, 16}, bad, 7));
    });
  };
  EXPECT_THAT(refusal({1, -1, -1, -1, 2, -1}), ::testing::HasSubstr("label -1 of sample 1"));
  EXPECT_THAT(refusal({1, -1, 16}), ::testing::HasSubstr("label 16 of sample 0"));
}

// The corrected sum over a sample estimates the sum over all classes.
TEST_F(ClassSampler, CorrectedSumIsAnUnbiasedEstimate) {
  EXPECT_EQ(drawn_logit(1), 0);
  EXPECT_EQ(drawn_logit(0), 0);
  const auto value = [](std::int64_t c) { return std::exp(std::sin(static_cast<double>(c))); };
  double all = 0, mean = 0;
  for (std::int64_t c = 0; c < kClasses; ++c) all += value(c);
  constexpr int kSteps = 20;
  for (int step = 1; step <= kSteps; ++step) {
    for (const std::int64_t c : sample(0.1, 0, 1, {}, step)) {
      mean += value(c) * std::exp(drawn_logit(0.1)) / kSteps;
    }
  }
  EXPECT_NEAR(mean / all, 1, 0.01);
}

}  // namespace
}  // namespace pfc
