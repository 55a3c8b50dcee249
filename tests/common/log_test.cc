#include "common/log.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

#include "common/error.h"

namespace pfc {
namespace {

TEST(MessageLine, BeginsWithTheProgramAndTheSeverity) {
  EXPECT_EQ(message_line("pfcctl", Severity::kNote, "text", true), "pfcctl: text");
  EXPECT_EQ(message_line("pfcctl", Severity::kWarning, "text", false), "pfcctl: warning: text");
  EXPECT_EQ(message_line("pfcctl", Severity::kError, "text", true),
            "pfcctl: \x1b[1;31merror:\x1b[0m text");
}

TEST(Log, WritesTheSameLinesAsMessageLine) {
  ::testing::internal::CaptureStderr();
  set_up_log("pfc-worker");
  spdlog::warn("epoch {}: skipped", 3);
  spdlog::info("ready");
  spdlog::debug("not shown");
  spdlog::default_logger()->flush();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "pfc-worker: warning: epoch 3: skipped\npfc-worker: ready\n");
}

TEST(Log, RejectsAnUnknownLevel) { EXPECT_THROW(set_up_log("x", "loud"), InputError); }

TEST(StderrHasColour, FollowsTheColorOptionAndIsFalseWithoutATerminal) {
  ::testing::internal::CaptureStderr();  // to a file: not a terminal
  EXPECT_FALSE(stderr_has_colour());
  set_colour("always");
  EXPECT_TRUE(stderr_has_colour());
  set_colour("never");
  EXPECT_FALSE(stderr_has_colour());
  set_colour("auto");
  ::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace pfc
