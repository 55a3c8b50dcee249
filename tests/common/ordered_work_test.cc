#include "common/ordered_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>

namespace pfc {
namespace {

TEST(OrderedWork, TakesEveryResultInOrderForAnyNumberOfThreads) {
  for (const int threads : {0, 1, 2, 7}) {
    std::vector<std::int64_t> taken;
    ordered_work<std::int64_t>(
        500, threads,
        [](std::int64_t i) {
          if (i % 3 == 0) std::this_thread::yield();
          return i * i;
        },
        [&](std::int64_t i, std::int64_t square) {
          EXPECT_EQ(square, i * i);
          taken.push_back(i);
        });
    ASSERT_EQ(taken.size(), 500u);
    EXPECT_TRUE(std::is_sorted(taken.begin(), taken.end()));
  }
}

TEST(OrderedWork, DoesNothingWithoutItems) {
  ordered_work<int>(
      0, 3, [](std::int64_t) { return 1; }, [](std::int64_t, int) { FAIL(); });
}

TEST(OrderedWork, KeepsOnlyAFewResultsWaiting) {
  std::atomic<std::int64_t> made{0};
  ordered_work<int>(
      300, 2,
      [&](std::int64_t) {
        ++made;
        return 0;
      },
      [&](std::int64_t i, int) { EXPECT_LE(made, i + 1 + 2 * 8); });
}

TEST(OrderedWork, RethrowsAThreadsException) {
  std::int64_t last = -1;
  const auto work = [&] {
    ordered_work<int>(
        1000, 3,
        [](std::int64_t i) -> int {
          if (i == 40) throw std::runtime_error("image 40");
          return 0;
        },
        [&](std::int64_t i, int) { last = i; });
  };
  EXPECT_THAT(work, ::testing::ThrowsMessage<std::runtime_error>("image 40"));
  EXPECT_LT(last, 40);
}

TEST(OrderedWork, RethrowsTheTakersExceptionAndStopsTheThreads) {
  std::atomic<int> made{0};
  const auto work = [&] {
    ordered_work<int>(
        100000, 3, [&](std::int64_t) { return ++made; },
        [](std::int64_t i, int) {
          if (i == 5) throw std::runtime_error("disk full");
        });
  };
  EXPECT_THAT(work, ::testing::ThrowsMessage<std::runtime_error>("disk full"));
  EXPECT_LT(made, 100);
}

}  // namespace
}  // namespace pfc
