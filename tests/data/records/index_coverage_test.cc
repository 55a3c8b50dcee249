#include "data/records/index_coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "common/error.h"
#include "data/records/writing/record_writer.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;

class CoverageOfAnIndex : public ::testing::Test {
 protected:
  void write(std::int64_t records) {
    RecordWriter writer(folder_ / "train.rec", folder_ / "train.idx");
    for (std::int64_t i = 0; i < records; ++i) writer.append(i, std::vector<std::byte>(8));
    writer.close();
    reader_.emplace(folder_ / "train.rec");
    all_ = reader_->scan();
  }
  /// Returns the coverage of an index that has these records of the file.
  IndexCoverage of(const std::vector<std::size_t>& records) {
    std::vector<std::uint64_t> offsets;
    for (const std::size_t i : records) offsets.push_back(all_.at(i));
    return index_coverage(*reader_, offsets);
  }

  TemporaryFolder folder_;
  std::optional<RecordReader> reader_;
  std::vector<std::uint64_t> all_;
};

TEST_F(CoverageOfAnIndex, IsCompleteInAnyOrder) {
  write(5);
  const IndexCoverage whole = of({4, 0, 2, 1, 3});
  EXPECT_EQ(whole.records, 5);
  EXPECT_EQ(whole.unnamed, 0);
  EXPECT_TRUE(whole.exact);
}

TEST_F(CoverageOfAnIndex, CountsRecordsMissingAtTheBeginningMiddleAndEnd) {
  write(10);
  const IndexCoverage part = of({6, 2, 3, 2});
  EXPECT_EQ(part.lines, 4);
  EXPECT_EQ(part.records, 3);
  EXPECT_EQ(part.unnamed, 2 + 2 + 3);
  EXPECT_EQ(part.between, 2);
  EXPECT_EQ(part.behind, 3);
}

TEST_F(CoverageOfAnIndex, IsEstimatedInALargeSet) {
  write(12'000);
  std::vector<std::size_t> even(6'000);
  for (std::size_t i = 0; i < even.size(); ++i) even[i] = 2 * i;
  const IndexCoverage half = of(even);
  EXPECT_FALSE(half.exact);
  EXPECT_EQ(half.unnamed, 6'000);
}

TEST_F(CoverageOfAnIndex, StopsCountingAtDamage) {
  write(3);
  const std::vector<std::uint64_t> offsets{all_[0], all_[1] + 4};
  EXPECT_EQ(index_coverage(*reader_, offsets).behind, 0);
}

TEST(IndexWarnings, MentionMissingAndRepeatedRecordsOnly) {
  EXPECT_THAT(index_warnings({.lines = 3, .records = 3}, true, "x.idx", "x.rec"), IsEmpty());
  EXPECT_THAT(index_warnings({.lines = 1, .records = 1}, true, "x.idx", "x.rec"), IsEmpty());
  EXPECT_THAT(index_warnings({.lines = 9, .records = 3}, true, "x.idx", "x.rec"),
              ElementsAre("x.idx: 9 lines for images name only 3 different records of x.rec"));
  const IndexCoverage cut{.lines = 3, .records = 3, .unnamed = 7, .behind = 5};
  EXPECT_THAT(
      index_warnings(cut, true, "x.idx", "x.rec"),
      ElementsAre(HasSubstr("x.idx: 7 records of x.rec have no line in this index, 5 of them")));
  EXPECT_THAT(index_warnings(cut, false, "x.idx", "x.rec"), IsEmpty());
}

TEST(IndexWarnings, AreAnErrorIfAllLinesNameOneRecord) {
  EXPECT_THAT(message_of<InputError>([] {
                (void)index_warnings({.lines = 80, .records = 1}, true, "x.idx", "x.rec");
              }),
              HasSubstr("x.idx: all 80 lines for images name the same record of x.rec"));
}

}  // namespace
}  // namespace pfc
