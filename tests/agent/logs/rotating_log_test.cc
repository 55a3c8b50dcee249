#include "agent/logs/rotating_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/error.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;

/// A log whose parts hold two lines.
class SmallLog : public ::testing::Test {
 protected:
  void writes(int from, int to) {
    RotatingLog log(path, {.part_bytes = 14, .parts = 3, .jobs = 1});
    for (int line = from; line < to; ++line) log.write("line " + std::to_string(line) + "\n");
  }

  /// Reads from this position to the end, in pieces of a few bytes.
  std::string reads(std::int64_t part, std::int64_t offset) {
    std::string all;
    while (true) {
      const LogPiece piece = read_log(path, part, offset, 5);
      all += piece.text;
      part = piece.part;
      offset = piece.offset;
      if (piece.text.empty()) return all;
    }
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder / "rank-0.log";
};

TEST_F(SmallLog, KeepsTheNumbersOfItsNewestParts) {
  writes(0, 9);
  EXPECT_THAT(parts_of_log(path), ElementsAre(Key(3), Key(4), Key(5)));
  EXPECT_EQ(reads(0, 0), "line 4\nline 5\nline 6\nline 7\nline 8\n");
}

TEST_F(SmallLog, ContinuesReadingAfterARotation) {
  writes(0, 1);
  const LogPiece first = read_log(path, 0, 0, 100);
  EXPECT_EQ(first.text, "line 0\n");
  writes(1, 4);
  EXPECT_EQ(reads(first.part, first.offset), "line 1\nline 2\nline 3\n");
}

TEST_F(SmallLog, ReportsThatTheRequestedPartWasRemoved) {
  writes(0, 9);
  const LogPiece piece = read_log(path, 1, 7, 100);
  EXPECT_TRUE(piece.skipped);
  EXPECT_EQ(piece.text, "line 4\nline 5\n");
  EXPECT_FALSE(read_log(path, piece.part, piece.offset, 100).skipped);
}

TEST_F(SmallLog, ReturnsNoTextForAnOffsetPastItsEnd) {
  writes(0, 1);
  EXPECT_EQ(read_log(path, 1, 7, 100).text, "");
  EXPECT_EQ(read_log(path, 9, 0, 100).text, "");
}

TEST_F(SmallLog, ReturnsItsLastBytes) {
  writes(0, 9);  // the newest part has one line, the one before it two
  EXPECT_EQ(read_log(path, -1, 3, 100).text, " 8\n");
  EXPECT_EQ(reads(-1, 7), "line 8\n");
  EXPECT_EQ(reads(-1, 10), " 7\nline 8\n");
  EXPECT_EQ(reads(-1, 1'000), "line 6\nline 7\nline 8\n");
}

TEST_F(SmallLog, ReadsTheLastLines) {
  EXPECT_THROW(read_log(path, kLogLines, 1, 100), InputError);
  writes(0, 9);
  EXPECT_EQ(reads(kLogLines, 1), "line 8\n");
  EXPECT_EQ(reads(kLogLines, 2), "line 7\nline 8\n");
  EXPECT_EQ(reads(kLogLines, 4), "line 5\nline 6\nline 7\nline 8\n");
  EXPECT_EQ(reads(kLogLines, 100), "line 4\nline 5\nline 6\nline 7\nline 8\n");
}

TEST_F(SmallLog, CountsLinesOfAnyLengthAndAnUnfinishedLastLine) {
  const std::string lines = std::string(20'000, 'x') + "\n\n" + std::string(30'000, 'y');
  std::ofstream(path) << "first\n" << lines;
  EXPECT_EQ(read_log(path, kLogLines, 3, 100'000).text, lines);
  EXPECT_EQ(read_log(path, kLogLines, 1, 100'000).text, std::string(30'000, 'y'));
}

TEST_F(SmallLog, ReturnsOnlyLaterTextIfReadFromItsEnd) {
  writes(0, 1);
  const LogPiece piece = read_log(path, -1, 1'000, 100);
  EXPECT_EQ(piece.text, "line 0\n");
  EXPECT_EQ(read_log(path, -1, 0, 100).text, "");
  EXPECT_EQ(read_log(path, -1, -7, 100).text, "");
  writes(1, 2);
  EXPECT_EQ(reads(piece.part, piece.offset), "line 1\n");
}

TEST_F(SmallLog, IsNotConfusedWithAnotherRanksLog) {
  writes(0, 1);
  std::ofstream(folder / "rank-0.log.x") << "no part";
  std::ofstream(folder / "rank-01.log.7") << "of another rank";
  EXPECT_THAT(parts_of_log(path), ElementsAre(Key(1)));
}

TEST_F(SmallLog, ReadingAMissingLogIsAnError) {
  EXPECT_THROW(read_log(path, 0, 0, 100), InputError);
}

}  // namespace
}  // namespace pfc
