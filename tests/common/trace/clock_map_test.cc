#include "common/trace/clock_map.h"

#include <gtest/gtest.h>

#include <vector>

namespace pfc {
namespace {

using namespace std::chrono_literals;

TimePoint here(std::chrono::nanoseconds time) { return TimePoint(time); }
WallTime coordinator_time(std::chrono::nanoseconds time) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(time));
}

TEST(ClockMap, UsesTheReadingWithTheShortestRoundTrip) {
  const ClockOffset best =
      best_offset(std::vector<ClockReading>{{here(0ms), here(100ms), coordinator_time(1000ms)},
                                            {here(200ms), here(204ms), coordinator_time(1303ms)}});
  EXPECT_EQ(best.offset, 1101ms);
  EXPECT_EQ(best.error, 2ms);
  EXPECT_EQ(best.at, here(202ms));
}

TEST(ClockMap, ErrorIsWithinItsBound) {
  // Either the response or the request took no time: the coordinator's clock is 500 ms ahead.
  for (const auto asked_at : {10ms, 15ms, 20ms}) {
    const ClockOffset best = best_offset(
        std::vector<ClockReading>{{here(10ms), here(20ms), coordinator_time(asked_at + 500ms)}});
    const auto off = ClockMap(best, best).there(here(1s)) - (1500ms / 1ns);
    EXPECT_LE(std::abs(off), best.error.count());
  }
}

TEST(ClockMap, FollowsAClockThatRunsFaster) {
  const ClockOffset before{.at = here(0s), .offset = 10s, .error = 1ms};
  const ClockOffset after{.at = here(100s), .offset = 10s + 4ms, .error = 3ms};
  const ClockMap map(before, after);
  EXPECT_EQ(map.there(here(50s)), (60s + 2ms) / 1ns);
  EXPECT_EQ(map.there(here(200s)), (210s + 4ms) / 1ns);
  EXPECT_EQ(map.error(), 3ms);
}

TEST(ClockMap, AppliesTheOffsetOfASingleMeasurement) {
  const ClockOffset only{.at = here(5s), .offset = 1s, .error = 1ms};
  EXPECT_EQ(ClockMap(only, only).there(here(7s)), 8s / 1ns);
  EXPECT_EQ(ClockMap(only, only).there(only.at), 6s / 1ns);
}

}  // namespace
}  // namespace pfc
