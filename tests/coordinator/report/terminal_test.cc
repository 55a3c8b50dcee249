#include "coordinator/report/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace pfc {
namespace {

using ::testing::EndsWith;

TEST(Terminal, LeavesLinesOfRankZeroUnchangedAndMarksTheOthers) {
  std::ostringstream out, err;
  Terminal terminal(out, err, false);
  terminal.worker_line(0, false, "Training: step 1");
  terminal.worker_line(0, true, "careful");
  terminal.worker_line(1, false, "hello");
  terminal.worker_line(3, true, "oh");
  EXPECT_EQ(out.str(), "Training: step 1\n[rank 1] hello\n");
  EXPECT_EQ(err.str(), "careful\n[rank 3] oh\n");
}

TEST(Terminal, DrawsNoProgressLineWithoutATerminal) {
  std::ostringstream out, err;
  Terminal terminal(out, err, false);
  terminal.progress("step 1/10");
  terminal.note("training");
  EXPECT_EQ(err.str(), "pfc-coordinator: training\n");
}

TEST(Terminal, KeepsTheProgressLineBelowEverythingElse) {
  std::ostringstream both;
  Terminal terminal(both, both, true);
  terminal.progress("step 1/10");
  EXPECT_EQ(both.str(), "\r\x1b[Kstep 1/10");
  terminal.worker_line(0, false, "Training: step 1");
  EXPECT_THAT(both.str(), EndsWith("\r\x1b[KTraining: step 1\n\r\x1b[Kstep 1/10"));
  terminal.note("stopping");
  EXPECT_THAT(both.str(), EndsWith("\r\x1b[Kpfc-coordinator: stopping\n\r\x1b[Kstep 1/10"));
  terminal.clear_progress();
  EXPECT_THAT(both.str(), EndsWith("\r\x1b[K"));
}

TEST(Terminal, ColoursTheWordErrorWhereColourIsOn) {
  std::ostringstream out, err;
  Terminal plain(out, err, false), coloured(out, err, false, true);
  plain.note("job failed", Severity::kError);
  coloured.note("job failed", Severity::kError);
  EXPECT_EQ(err.str(),
            "pfc-coordinator: error: job failed\n"
            "pfc-coordinator: \x1b[1;31merror:\x1b[0m job failed\n");
}

TEST(Terminal, CutsAProgressLineThatWouldWrap) {
  std::ostringstream both;
  Terminal terminal(both, both, true);
  terminal.progress(std::string(5'000, 'x'));
  EXPECT_LT(both.str().size(), 1'000U);
}

}  // namespace
}  // namespace pfc
