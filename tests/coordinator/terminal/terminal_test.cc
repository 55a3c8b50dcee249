#include "coordinator/terminal/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/text_output.h"

namespace pfc {
namespace {

using ::testing::EndsWith;

TEST(Terminal, LeavesLinesOfRankZeroUnchangedAndMarksThoseOfOtherRanks) {
  testing::TextOutput output;
  Terminal terminal(output, false);
  terminal.worker_line(0, false, "Training: step 1");
  terminal.worker_line(0, true, "careful");
  terminal.worker_line(1, false, "hello");
  terminal.worker_line(3, true, "oh");
  EXPECT_EQ(output.out, "Training: step 1\n[rank 1] hello\n");
  EXPECT_EQ(output.err, "careful\n[rank 3] oh\n");
}

TEST(Terminal, DrawsNoProgressLineWithoutATerminal) {
  testing::TextOutput output;
  Terminal terminal(output, false);
  terminal.progress("step 1/10");
  terminal.note("training");
  EXPECT_EQ(output.err, "pfc-coordinator: training\n");
}

TEST(Terminal, KeepsTheProgressLineBelowEverythingElse) {
  testing::TextOutput output;
  Terminal terminal(output, true);
  terminal.progress("step 1/10");
  EXPECT_EQ(output.both, "\r\x1b[Kstep 1/10");
  terminal.worker_line(0, false, "Training: step 1");
  EXPECT_THAT(output.both, EndsWith("\r\x1b[KTraining: step 1\n\r\x1b[Kstep 1/10"));
  terminal.note("stopping");
  EXPECT_THAT(output.both, EndsWith("\r\x1b[Kpfc-coordinator: stopping\n\r\x1b[Kstep 1/10"));
  terminal.clear_progress();
  EXPECT_THAT(output.both, EndsWith("\r\x1b[K"));
}

TEST(Terminal, ColoursTheWordErrorIfColourIsOn) {
  testing::TextOutput output;
  Terminal plain(output, false), coloured(output, false, true);
  plain.note("job failed", Severity::kError);
  coloured.note("job failed", Severity::kError);
  EXPECT_EQ(output.err,
            "pfc-coordinator: error: job failed\n"
            "pfc-coordinator: \x1b[1;31merror:\x1b[0m job failed\n");
}

TEST(Terminal, CutsAProgressLineThatWouldWrap) {
  testing::TextOutput output;
  Terminal terminal(output, true);
  terminal.progress(std::string(5'000, 'x'));
  EXPECT_LT(output.both.size(), 1'000U);
}

TEST(Terminal, PrintsNoControlCharactersOfAWorker) {
  testing::TextOutput output;
  Terminal terminal(output, false);
  terminal.worker_line(0, false, "a\rb\x1b[1Ac\nTraining: forged\xff");
  EXPECT_EQ(output.out, "a b [1Ac Training: forged?\n");
}

TEST(Terminal, MarksALineOfRankZeroThatLooksLikeOneOfTheCoordinator) {
  testing::TextOutput output;
  Terminal terminal(output, false);
  terminal.worker_line(0, true, "pfc-coordinator: job completed");
  EXPECT_EQ(output.err, "[rank 0] pfc-coordinator: job completed\n");
}

TEST(Terminal, PrintsAMessageOnOneLine) {
  testing::TextOutput output;
  Terminal terminal(output, false);
  terminal.note("stopped by x\npfc-coordinator: job completed");
  EXPECT_EQ(output.err, "pfc-coordinator: stopped by x pfc-coordinator: job completed\n");
}

}  // namespace
}  // namespace pfc
