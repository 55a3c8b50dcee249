#include "agent/silence_notice.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

using namespace std::chrono_literals;

TEST(SilenceNotice, ReportsTheReasonOncePerOutage) {
  SilenceNotice notice("10.0.0.1:7450");
  EXPECT_EQ(notice.attempt_failed(100ms, 60s, "refused"), std::nullopt);
  EXPECT_EQ(notice.attempt_failed(3s, 60s, "refused"),
            "coordinator 10.0.0.1:7450 cannot be reached (refused); trying for 57 s more");
  EXPECT_EQ(notice.attempt_failed(5s, 60s, "refused"), std::nullopt);
  EXPECT_EQ(notice.attempt_failed(200ms, 60s, "no route"),
            std::nullopt);  // the agent was connected in between
  EXPECT_EQ(notice.attempt_failed(4s, 60s, "no route"),
            "coordinator 10.0.0.1:7450 cannot be reached (no route); trying for 56 s more");
}

TEST(SilenceNotice, SaysWhenWorkersEndAlthoughTheAgentKeepsRetrying) {
  SilenceNotice notice("10.0.0.1:7450", true);
  EXPECT_EQ(
      *notice.attempt_failed(3s, 60s, "no route"),
      "coordinator 10.0.0.1:7450 cannot be reached (no route); trying again; workers here write "
      "a checkpoint and end after 60 s without a coordinator");
  EXPECT_FALSE(notice.attempt_failed(1h, 60s, "no route"));
}

TEST(SilenceNotice, ReportsEachRefusalReasonOnce) {
  SilenceNotice notice("10.0.0.1:7450", true);
  EXPECT_EQ(*notice.attempt_failed(0s, 60s, "unknown host", true),
            "coordinator 10.0.0.1:7450 refuses this agent (unknown host); trying again");
  EXPECT_FALSE(notice.attempt_failed(10s, 60s, "unknown host", true));
  EXPECT_TRUE(notice.attempt_failed(20s, 60s, "another version", true));
}

}  // namespace
}  // namespace pfc
