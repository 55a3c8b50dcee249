#include "worker/coordinator_link/start_report.h"

#include <gtest/gtest.h>

#include "tests/worker/coordinator_link/listening_client.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

TEST(StartReport, ReportsTheCurrentActivityToTheCoordinator) {
  testing::ListeningClient client;
  StartReport report(&client, false, 1h);
  report.tell("opening /data");
  const auto reports = client.wait_for(1);
  EXPECT_TRUE(reports[0].starting);
  EXPECT_EQ(reports[0].phase, "opening /data");
}

TEST(StartReport, ReportsMoreWorkWhileTheProcessComputes) {
  testing::ListeningClient client;
  StartReport report(&client, false);
  report.tell("drawing centres");
  while (client.count() < 3) {
  }
  const auto reports = client.wait_for(3);
  EXPECT_EQ(reports[2].phase, "drawing centres");
  EXPECT_GT(reports[2].work, reports[1].work);
}

TEST(StartReport, DoesNotCountHeartbeatsAsWork) {
  const ProcessWork before{.cpu_seconds = 7, .bytes_read = 1 << 20};
  EXPECT_FALSE(has_worked(before, before));
  EXPECT_FALSE(has_worked(before, {.cpu_seconds = 7.01, .bytes_read = (1 << 20) + 4096}));
  EXPECT_TRUE(has_worked(before, {.cpu_seconds = 7.2, .bytes_read = 1 << 20}));
  EXPECT_TRUE(has_worked(before, {.cpu_seconds = 7, .bytes_read = 2 << 20}));
}

}  // namespace
}  // namespace pfc
