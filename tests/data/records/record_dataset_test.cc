// Tests several .rec files as one data set. dataset_test.cc tests a single file.
#include "data/records/record_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/open_dataset.h"
#include "data/records/image_record.h"
#include "data/records/property_file.h"
#include "data/records/writing/record_writer.h"
#include "data/staging.h"
#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_jpeg;
using testing::message_of;

class SeveralRecs : public ::testing::Test {
 protected:
  /// Keys start at 0. Image number i, counted over all files, has the waves of seed i.
  void write(const std::string& name, const std::vector<std::int64_t>& labels,
             bool record_zero = false) {
    const fs::path rec = folder_ / name;
    RecordWriter writer(rec, fs::path(rec).replace_extension(".idx"));
    std::int64_t key = 0;
    if (record_zero) writer.append(key++, encode_record_zero(std::ssize(labels), 1));
    for (const std::int64_t label : labels) {
      writer.append(key++, encode_image_record(label, 0, make_jpeg(8, 8, seed_++)));
    }
    if (record_zero) writer.append(key, encode_identity_record(key, 1, key));
    writer.close();
  }
  std::vector<std::int64_t> labels(const Dataset& dataset) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < dataset.info().images; ++i) {
      const Sample sample = dataset.read(i, storage_);
      EXPECT_TRUE(std::ranges::equal(sample.encoded, make_jpeg(8, 8, static_cast<unsigned>(i))));
      all.push_back(sample.label);
    }
    return all;
  }

  TemporaryFolder folder_;
  unsigned seed_ = 0;
  ImageBuffer storage_;
};

TEST_F(SeveralRecs, ShareTheirLabels) {
  write("train-00000.rec", {0, 2});
  write("train-00001.rec", {1, 0, 2});
  write("train-00002.rec", {3});
  const auto dataset = open_dataset({.rec = folder_.path()});
  EXPECT_THAT(labels(*dataset), ElementsAre(0, 2, 1, 0, 2, 3));
  EXPECT_EQ(dataset->info().classes, 4);
  EXPECT_EQ(dataset->info().layout, "RecordIO, 3 files");
  EXPECT_THAT(dataset->info().warnings, IsEmpty());
  EXPECT_THAT(dataset->name(3), HasSubstr("train-00001.rec: record 1 (offset "));
  EXPECT_THAT(dataset->briefs()[1].holds, HasSubstr(" bytes in 3 files"));
}

TEST_F(SeveralRecs, AreInTheOrderOfTheirNumbers) {
  write("train_2.rec", {0});
  write("train_10.rec", {1});
  for (int i = 3; i < 10; ++i) write("train_" + std::to_string(i) + ".rec", {2});
  const auto dataset = open_dataset({.rec = folder_.path()});
  EXPECT_EQ(dataset->label(0, storage_), 0);
  EXPECT_EQ(dataset->label(8, storage_), 1);
}

TEST_F(SeveralRecs, MayHaveAnyNameInAPattern) {
  write("part-008.rec", {0});
  write("part-009.rec", {1});
  write("part-010.rec", {1});
  write("part-011.rec", {5});  // does not match the pattern
  const auto dataset = open_dataset({.rec = folder_ / "part-{008..010}.rec"});
  EXPECT_THAT(labels(*dataset), ElementsAre(0, 1, 1));
  EXPECT_EQ(dataset->info().classes, 2);
}

TEST_F(SeveralRecs, ShareThePropertyAndNamesInTheirFolder) {
  write("train-0.rec", {0});
  write("train-1.rec", {1});
  write_property(folder_ / "property", {3, 16, 24});
  testing::write_file(folder_ / "identities.txt", "a\nb\nc\n");
  const auto dataset = open_dataset({.rec = folder_.path()});
  EXPECT_EQ(dataset->info().classes, 3);
  EXPECT_EQ(dataset->info().width, 24);
  EXPECT_EQ(dataset->identity(2), "c");
}

TEST_F(SeveralRecs, MayHaveAPropertyWithAByteOrderMark) {
  write("train-0.rec", {0});
  testing::write_file(folder_ / "property",
                      "\xef\xbb\xbf"
                      "3,16,24\r\n\n");
  EXPECT_EQ(open_dataset({.rec = folder_.path()})->info().classes, 3);
  testing::write_file(folder_ / "property", "3,16,24\n5");
  EXPECT_THAT(message_of<InputError>([&] { open_dataset({.rec = folder_.path()}); }),
              HasSubstr("property: found '3,16,24', expected classes,height,width"));
}

TEST_F(SeveralRecs, IgnoreTheNumberOfClassesInEachRecordZero) {
  write("train-0.rec", {0, 4}, /*record_zero=*/true);
  write("train-1.rec", {2}, /*record_zero=*/true);
  const auto dataset = open_dataset({.rec = folder_.path()});
  EXPECT_THAT(labels(*dataset), ElementsAre(0, 4, 2));
  EXPECT_EQ(dataset->info().classes, 5);
}

TEST_F(SeveralRecs, RequireContiguousNumbersInTheirFileNames) {
  write("train-0.rec", {0});
  write("train-2.rec", {1});
  EXPECT_THAT(message_of<InputError>([&] { open_dataset({.rec = folder_.path()}); }),
              HasSubstr("found train-0.rec and train-2.rec, but none between them"));
  std::filesystem::rename(folder_ / "train-2.rec", folder_ / "train_00002.rec");
  EXPECT_THAT(message_of<InputError>([&] { open_dataset({.rec = folder_.path()}); }),
              HasSubstr("found train-0.rec and train_00002.rec, but none between them"));
}

TEST_F(SeveralRecs, NameAMissingFile) {
  write("part-0.rec", {0});
  EXPECT_THAT(message_of<InputError>([&] { open_dataset({.rec = folder_ / "part-{0..1}.rec"}); }),
              HasSubstr("part-1.rec: "));
}

TEST_F(SeveralRecs, AreStagedTogether) {
  const TemporaryFolder fast;
  write("part-0.rec", {0});
  write("part-1.rec", {1});
  const fs::path there = stage_dataset(folder_ / "part-{0..1}.rec", fast.path());
  EXPECT_THAT(labels(*open_dataset({.rec = there})), ElementsAre(0, 1));
  EXPECT_TRUE(fs::exists(there.parent_path() / "part-1.idx"));
}

}  // namespace
}  // namespace pfc
