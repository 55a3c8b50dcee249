#include "coordinator/web/last_reading.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

using namespace std::chrono_literals;

class LastReadingTest : public ::testing::Test {
 protected:
  void reads_after(std::chrono::milliseconds pause) { reading_.read(now_ += pause); }
  std::chrono::milliseconds wait_after(std::chrono::milliseconds pause) {
    return reading_.wait(now_ + pause);
  }

  LastReading reading_{60s};
  TimePoint now_ = Clock::now();
};

TEST_F(LastReadingTest, DoesNotWaitAfterFewerThanTwoReads) {
  EXPECT_EQ(wait_after(0s), 0s);
  reads_after(1s);
  EXPECT_EQ(wait_after(0s), 0s);
}

TEST_F(LastReadingTest, WaitsALittleLongerThanTheReadersInterval) {
  for (int i = 0; i < 3; ++i) reads_after(15s);
  EXPECT_EQ(wait_after(3s), 16s);
}

TEST_F(LastReadingTest, WaitsForTheSlowestOfSeveralReaders) {
  for (int i = 0; i < 3; ++i) {
    reads_after(2s);
    reads_after(13s);
  }
  EXPECT_EQ(wait_after(1s), 14s);
}

TEST_F(LastReadingTest, ForgetsAReaderWhoHasGone) {
  for (int i = 0; i < 3; ++i) reads_after(15s);
  EXPECT_EQ(wait_after(17s), 0s);
}

TEST_F(LastReadingTest, WaitsNoLongerThanItsLimit) {
  for (int i = 0; i < 3; ++i) reads_after(5min);
  EXPECT_EQ(wait_after(1s), 60s);
}

}  // namespace
}  // namespace pfc
