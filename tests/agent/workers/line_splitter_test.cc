#include "agent/workers/line_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(LineSplitter, ReturnsLinesWhenTheyAreComplete) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("one\ntw"), ElementsAre("one"));
  EXPECT_THAT(splitter.feed("o\r\n\nthree"), ElementsAre("two", ""));
  EXPECT_THAT(splitter.flush(), ElementsAre("three"));
  EXPECT_THAT(splitter.flush(), IsEmpty());
}

TEST(LineSplitter, SplitsAVeryLongLine) {
  LineSplitter splitter;
  const auto lines = splitter.feed(std::string(2 * kMaxLine + 5, 'x') + "\ny\n");
  EXPECT_THAT(lines, ElementsAre(SizeIs(kMaxLine), SizeIs(kMaxLine), "xxxxx", "y"));
}

}  // namespace
}  // namespace pfc
