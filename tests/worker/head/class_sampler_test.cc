#include "worker/head/class_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using Classes = std::vector<std::int64_t>;

class ClassSampler : public ::testing::Test {
 protected:
  [[nodiscard]] Classes sample(double rate, int rank, int world_size, const Classes& labels,
                               std::int64_t step = 7) const {
    return sample_classes({.classes = kClasses, .rate = rate, .seed = 3},
                          shard_of(kClasses, rank, world_size), labels, step);
  }
  static constexpr std::int64_t kClasses = 100'003;
  const Classes labels_{5, 99'999, 5, 50'000, 0, 100'002};
};

TEST_F(ClassSampler, SamplesTheSameClassesForAnyNumberOfWorkers) {
  for (const double rate : {1.0, 0.1, 0.0}) {
    const Classes whole = sample(rate, 0, 1, labels_);
    for (const int world_size : {2, 3, 5, 7}) {
      Classes together;
      for (int rank = 0; rank < world_size; ++rank) {
        const Classes part = sample(rate, rank, world_size, labels_);
        together.insert(together.end(), part.begin(), part.end());
      }
      EXPECT_EQ(together, whole) << rate << " " << world_size;
    }
  }
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
  const auto in_both = [&](const Classes& other) {
    Classes both;
    std::set_intersection(active.begin(), active.end(), other.begin(), other.end(),
                          std::back_inserter(both));
    return static_cast<double>(both.size());
  };
  const double expected = 0.01 * kClasses;  // independent draws
  EXPECT_NEAR(in_both(sample(0.1, 0, 1, {}, 8)), expected, 5 * std::sqrt(expected));
  const Classes other_seed =
      sample_classes({.classes = kClasses, .rate = 0.1, .seed = 4}, {0, kClasses}, {}, 7);
  EXPECT_NEAR(in_both(other_seed), expected, 5 * std::sqrt(expected));
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
