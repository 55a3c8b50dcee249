#include "data/combined_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/files/atomic_file.h"
#include "data/job_data.h"
#include "data/records/image_record.h"
#include "data/records/property_file.h"
#include "data/records/writing/record_writer.h"
#include "tests/support/data_folder.h"
#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_jpeg;
using testing::message_of;

class SeveralSets : public testing::DataFolder {
 protected:
  /// Writes a set of images of side x side pixels with these labels to a folder of this name.
  std::filesystem::path write(const std::string& name, const std::vector<std::int64_t>& labels,
                              std::int64_t classes, const std::string& names = {}, int side = 16) {
    const std::filesystem::path folder = folder_ / name;
    std::filesystem::create_directories(folder);
    RecordWriter writer(folder / "train.rec", folder / "train.idx");
    for (std::size_t i = 0; i < labels.size(); ++i) {
      writer.append(static_cast<std::int64_t>(i),
                    encode_image_record(labels[i], i, make_jpeg(side, side, images_++)));
    }
    writer.close();
    write_property(folder / "property", {classes, side, side});
    if (!names.empty()) write_file_atomically(folder / "identities.txt", names);
    return folder;
  }
  std::string error() const {
    return message_of<InputError>([&] { open_job_data(job_); });
  }

  unsigned images_ = 0;
  JobConfig job_;
};

TEST_F(SeveralSets, HaveTheirClassesAndImagesNumberedOneSetAfterAnother) {
  job_.rec = {write("a", {0, 2, 1}, 3), write("b", {1, 0}, 2), write("c", {0}, 1)};
  const auto dataset = open_job_data(job_);
  EXPECT_THAT(labels_of(*dataset), ElementsAre(0, 2, 1, 4, 3, 5));
  EXPECT_EQ(dataset->info().classes, 6);
  EXPECT_THAT(dataset->info().part_classes, ElementsAre(3, 2, 1));
  EXPECT_THAT(dataset->name(4), HasSubstr((folder_ / "b" / "train.rec").string() + ": record 1"));
  EXPECT_EQ(dataset->briefs().size(), 6u);
}

TEST_F(SeveralSets, ReturnTheBytesOfEachImage) {
  job_.rec = {write("a", {0, 1}, 2), write("b", {0}, 1)};
  const auto dataset = open_job_data(job_);
  ImageBuffer storage;
  for (unsigned i = 0; i < 3; ++i) {
    const Sample sample = dataset->read(i, storage);
    EXPECT_EQ(std::vector(sample.encoded.begin(), sample.encoded.end()), make_jpeg(16, 16, i));
    EXPECT_TRUE(sample.record.empty()) << "the record has the label of its own set";
  }
}

TEST_F(SeveralSets, ShareAClassForPeopleWithTheSameName) {
  job_.rec = {write("a", {0, 1, 2}, 3, "Ada\nGrace\nEmmy\n"),
              write("b", {0, 1, 2}, 3, "Mary\nGrace\nAda\n"),
              write("c", {0, 1}, 2, "Emmy\nSofia\n")};
  job_.share_identities = true;
  const auto dataset = open_job_data(job_);
  EXPECT_THAT(labels_of(*dataset), ElementsAre(0, 1, 2, 3, 1, 0, 2, 4));
  EXPECT_THAT(dataset->info().part_classes, ElementsAre(3, 1, 1));
  EXPECT_EQ(dataset->identity(3), "Mary");
  EXPECT_EQ(dataset->identity(4), "Sofia");
}

TEST_F(SeveralSets, KeepAllLabelsOfAnImage) {
  DataFolder::write("1.jpg", make_jpeg(16, 16, 1));
  DataFolder::write("list.tsv", "1.jpg\t0,2\n1.jpg\t1\n");
  job_.rec = {write("a", {0, 1, 2}, 3), folder_ / "list.tsv"};
  const auto dataset = open_job_data_and_complete(job_);
  EXPECT_EQ(job_.labels_per_image, 2);
  EXPECT_THAT(labels_of(*dataset), ElementsAre(0, 1, 2, 5, 4));
  std::vector<std::int64_t> others;
  for (std::int64_t image = 0; image < 5; ++image) {
    dataset->other_labels(image, std::span(&others.emplace_back(), 1));
  }
  EXPECT_THAT(others, ElementsAre(-1, -1, -1, 3, -1));
  job_.labels_per_image = 3;
  EXPECT_THAT(message_of<InputError>([&] { complete_job(job_, dataset->info()); }),
              HasSubstr("found 2 labels for one image at most, but labels_per_image is 3"));
  job_.labels_per_image = 0;
  DatasetInfo info = dataset->info();
  info.labels_per_image = 1001;
  EXPECT_THAT(message_of<InputError>([&] { complete_job(job_, info); }),
              HasSubstr("found 1001 labels for an image, expected at most 1000:"));
}

TEST_F(SeveralSets, ReadNamesFromOtherFiles) {
  write_file_atomically(folder_ / "a.txt", "x\ny\n");
  job_.rec = {write("a", {0, 1}, 2), write("b", {0, 1}, 2, "y\nz\n")};
  job_.identities = {folder_ / "a.txt", ""};
  job_.share_identities = true;
  EXPECT_THAT(labels_of(*open_job_data(job_)), ElementsAre(0, 1, 1, 2));
  job_.share_identities = false;
  EXPECT_THAT(labels_of(*open_job_data(job_)), ElementsAre(0, 1, 2, 3));
}

TEST_F(SeveralSets, ReportALabelWithoutName) {
  job_.rec = {write("a", {0}, 1, "x\n"), write("b", {0, 1}, 2)};
  job_.share_identities = true;
  EXPECT_THAT(error(), HasSubstr("share_identities: label 0 of " + (folder_ / "b").string()));
  EXPECT_THAT(error(), HasSubstr("has no name; expected identities.txt"));
}

TEST_F(SeveralSets, ReportTwoLabelsOfASetWithTheSameName) {
  job_.rec = {write("a", {0, 1}, 2, "x\nx\n"), write("b", {0}, 1, "y\n")};
  job_.share_identities = true;
  EXPECT_THAT(error(), HasSubstr("two labels of"));
  EXPECT_THAT(error(), HasSubstr("have the name 'x'"));
}

TEST_F(SeveralSets, WarnIfNoPersonIsShared) {
  job_.rec = {write("a", {0}, 1, "x\n"), write("b", {0}, 1, "y\n")};
  job_.share_identities = true;
  EXPECT_THAT(open_job_data(job_)->info().warnings,
              ::testing::Contains(HasSubstr("no name is in more than one")));
}

TEST_F(SeveralSets, RequireAMatchingFileOfNames) {
  job_.rec = {write("a", {0, 1}, 2), write("b", {0}, 1)};
  job_.identities = {folder_ / "none.txt", ""};
  EXPECT_THAT(error(), HasSubstr("none.txt: not found"));
  write_file_atomically(folder_ / "none.txt", "x\n");
  EXPECT_THAT(error(), HasSubstr("found 1 lines, expected 2"));
}

TEST_F(SeveralSets, CompareTheJobsNumClassesAndNumImageWithTheSumOfAllSets) {
  job_.rec = {write("a", {0, 1}, 2), write("b", {0}, 1)};
  job_.num_classes = 3;
  job_.num_image = 3;
  EXPECT_NO_THROW(open_job_data(job_));
  job_.num_classes = 4;
  EXPECT_THAT(error(), HasSubstr("found 3 classes, but num_classes is 4"));
  job_.num_classes = 0;
  job_.num_image = 2;
  EXPECT_THAT(error(), HasSubstr("found 3 images, but num_image is 2"));
}

/// The images have only the labels 0 and 1, but the job and the list of names have three classes.
TEST_F(SeveralSets, SingleSetWithNamesHasTheJobsNumClasses) {
  job_.rec = {write("a", {0, 1}, 2)};
  std::filesystem::remove(folder_ / "a" / "property");
  write_file_atomically(folder_ / "a.txt", "x\ny\nz\n");
  job_.identities = {folder_ / "a.txt"};
  job_.num_classes = 3;
  const auto dataset = open_job_data(job_);
  EXPECT_EQ(dataset->info().classes, 3);
  EXPECT_EQ(dataset->identity(2), "z");
}

TEST_F(SeveralSets, UseTheImageSizeOfTheFirstSetOrTheJob) {
  job_.rec = {write("a", {0}, 1, {}, 32), write("b", {0}, 1)};
  EXPECT_EQ(open_job_data(job_)->info().height, 32);
  job_.image_size = 48;
  EXPECT_EQ(open_job_data(job_)->info().height, 48);
  EXPECT_EQ(open_job_data(job_)->info().width, 48);
}

TEST_F(SeveralSets, FillInTheJobsNumClassesNumImageAndHeadClasses) {
  job_.rec = {write("a", {0, 1}, 2), write("b", {0}, 1)};
  job_.heads = Heads::kSeparate;
  open_job_data_and_complete(job_);
  EXPECT_EQ(job_.num_classes, 3);
  EXPECT_EQ(job_.num_image, 3);
  EXPECT_THAT(job_.head_classes, ElementsAre(2, 1));
  EXPECT_NO_THROW(open_job_data(job_)) << "the completed job must fit the data";
  job_.head_classes = {2, 2};
  EXPECT_THAT(error(), HasSubstr("says 1 classes, but entry 2 of head_classes says 2"));
}

TEST_F(SeveralSets, SingleSetUsesTheClassesOfItsHead) {
  job_.rec = {write("a", {0, 1}, 2)};
  job_.heads = Heads::kSeparate;
  job_.head_classes = {5};
  EXPECT_THAT(error(), HasSubstr("says 2 classes"));
  job_.head_classes = {2};
  open_job_data_and_complete(job_);
  EXPECT_EQ(job_.num_classes, 2);
  EXPECT_THAT(job_.head_classes, ElementsAre(2));
}

}  // namespace
}  // namespace pfc
