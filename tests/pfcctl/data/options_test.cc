#include "pfcctl/data/options.h"

#include <gtest/gtest.h>

#include <string>

namespace pfc {
namespace {

class DataOptions : public ::testing::Test {
 protected:
  DataOptions() {
    add_data_set(verb_, data_);
    add_threads(verb_, threads_);
    add_max_damaged(verb_, part_);
    add_force(verb_, replace_);
  }
  void parse(const std::string& line) { verb_.parse(line); }

  CLI::App verb_;
  std::filesystem::path data_;
  int threads_ = 0;
  double part_ = 0.001;
  bool replace_ = false;
};

TEST_F(DataOptions, AreReadFromTheCommandLine) {
  parse("faces --threads 3 --max-damaged 0.25 --force");
  EXPECT_EQ(data_, "faces");
  EXPECT_EQ(threads_, 3);
  EXPECT_EQ(part_, 0.25);
  EXPECT_TRUE(replace_);
}

TEST_F(DataOptions, AcceptBothEndsOfARange) {
  parse("faces --max-damaged 1 --threads 1024");
  parse("faces --max-damaged 0 --threads 0");
  EXPECT_EQ(part_, 0);
}

TEST_F(DataOptions, RejectNumbersOutsideZeroToOne) {
  for (const char* part : {"nan", "-nan", "1.5", "-0.1", "inf", "half", ""}) {
    EXPECT_THROW(parse("faces --max-damaged=" + std::string(part)), CLI::ParseError) << part;
  }
}

TEST_F(DataOptions, NeedADataSet) { EXPECT_THROW(parse("--force"), CLI::RequiredError); }

}  // namespace
}  // namespace pfc
