#include "pfcctl/data/info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include "data/open_dataset.h"
#include "tests/pfcctl/data/people.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using testing::write_file;

class DataInfo : public ::testing::Test {
 protected:
  DataInfo() { testing::write_people(people_, 2, 2); }
  [[nodiscard]] std::unique_ptr<Dataset> open() const {
    return open_dataset({.rec = people_, .image_size = 16});
  }

  TemporaryFolder folder_;
  std::filesystem::path people_ = folder_ / "people";
};

TEST_F(DataInfo, ReportsTheDecodingSpeedOfUndamagedImages) {
  write_file(people_ / "p01/1.jpg", "text");
  const auto dataset = open();
  const DataSummary s = summarise(*dataset, false);
  EXPECT_GT(s.decoding.images_a_second, 0);
  EXPECT_GT(s.decoding.damaged, 0);
  EXPECT_THAT(summary_text(*dataset, s),
              HasSubstr(fmt::format(" images/s ({} of {} images drawn are damaged)",
                                    s.decoding.damaged, s.decoding.drawn)));
}

TEST_F(DataInfo, ReportsThatNoImageCanBeDecoded) {
  for (const char* image : {"p00/0.jpg", "p00/1.jpg", "p01/0.jpg", "p01/1.jpg"}) {
    write_file(people_ / image, "text");
  }
  const auto dataset = open();
  EXPECT_THAT(summary_text(*dataset, summarise(*dataset, false)),
              HasSubstr("images drawn can be decoded\n"));
}

TEST_F(DataInfo, CountsAllLabelsOfImages) {
  write_file(people_ / "list.tsv", "p00/0.jpg\t0,2,3\np00/1.jpg\t3\np01/0.jpg\t0\n");
  const auto dataset = open_dataset({.rec = people_ / "list.tsv"});
  const DataSummary s = summarise(*dataset, true);
  EXPECT_EQ(s.empty_classes, 1);
  EXPECT_EQ(s.most, 2);
  EXPECT_EQ(s.mean, 5.0 / 4);
  EXPECT_THAT(summary_text(*dataset, s), HasSubstr("labels per image      up to 3\n"));
}

}  // namespace
}  // namespace pfc
