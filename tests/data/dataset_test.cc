#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "data/damaged_image.h"
#include "data/open_dataset.h"
#include "tests/support/error_message.h"
#include "tests/support/face_folder.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using testing::FaceFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_jpeg;
using testing::message_of;
using testing::write_file;

class DatasetFolder : public ::testing::Test {
 protected:
  void write_plain(const std::vector<std::int64_t>& keys, const std::vector<float>& labels) {
    RecordWriter writer(rec_, idx_);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      writer.append(keys[i], encode_image_record(std::span(&labels[i], 1), 0,
                                                 make_jpeg(16, 24, static_cast<unsigned>(i))));
    }
    writer.close();
  }
  std::string error(DatasetOptions options = {}) {
    if (options.rec.empty()) options.rec = folder_.path();
    return message_of<InputError>([&] { open_dataset(options); });
  }
  std::vector<std::string> warnings() {
    return open_dataset({.rec = folder_.path()})->info().warnings;
  }
  /// Removes all lines of the index except the first ones.
  void cut_index(std::size_t lines) {
    rewrite_index([&](const std::string& text) {
      std::size_t end = 0;
      for (std::size_t i = 0; i < lines; ++i) end = text.find('\n', end) + 1;
      return text.substr(0, end);
    });
  }
  std::string read_error(std::int64_t image) {
    const auto dataset = open_dataset({.rec = folder_.path()});
    return message_of<InputError>([&] { dataset->read(image, storage_); });
  }
  void rewrite_index(const std::function<std::string(const std::string&)>& change) {
    const auto bytes = testing::read_file(idx_);
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    write_file(idx_, change(text));
  }

  TemporaryFolder folder_;
  FaceFolder faces_{.folder = folder_.path()};
  std::filesystem::path rec_ = folder_ / "train.rec";
  std::filesystem::path idx_ = folder_ / "train.idx";
  ImageBuffer storage_;
};

TEST_F(DatasetFolder, ReadsInsightFacesLayout) {
  write_insightface(faces_);
  const auto dataset = open_dataset({.rec = folder_.path(), .num_classes = 5, .num_image = 20});
  EXPECT_EQ(dataset->info().images, 20);
  EXPECT_EQ(dataset->info().classes, 5);
  EXPECT_EQ(dataset->info().height, 16);
  EXPECT_EQ(dataset->info().width, 16);
  for (std::int64_t i = 0; i < 20; ++i) {
    const Sample sample = dataset->read(i, storage_);
    EXPECT_EQ(sample.label, faces_.label(i));
    EXPECT_TRUE(std::ranges::equal(sample.encoded, faces_.encoded(i))) << "image " << i;
  }
  EXPECT_THAT(dataset->name(3), HasSubstr("train.rec: record 4 (offset "));
}

TEST_F(DatasetFolder, NeedsNeitherIndexNorProperty) {
  write_insightface(faces_);
  std::filesystem::remove(idx_);
  std::filesystem::remove(folder_ / "property");
  const auto dataset = open_dataset({.rec = rec_});
  EXPECT_EQ(dataset->info().images, 20);
  EXPECT_EQ(dataset->info().classes, 5);
  EXPECT_EQ(dataset->info().height, 16);
  EXPECT_EQ(dataset->read(19, storage_).label, 4);
}

TEST_F(DatasetFolder, ReadsPlainRecordsInTheOrderOfTheIndex) {
  write_plain({8, 0, 3}, {2, 0, 1});
  const auto dataset = open_dataset({.rec = rec_});
  EXPECT_EQ(dataset->info().images, 3);
  EXPECT_EQ(dataset->info().classes, 3);
  EXPECT_EQ(dataset->info().height, 16);
  EXPECT_EQ(dataset->info().width, 24);
  EXPECT_EQ(dataset->read(0, storage_).label, 2);
  EXPECT_EQ(dataset->read(1, storage_).label, 0);
  EXPECT_THAT(dataset->name(0), HasSubstr("record 8"));
}

TEST_F(DatasetFolder, UsesTheFirstOfSeveralLabels) {
  const std::vector<float> labels{1, 17, 0.5f};
  RecordWriter writer(rec_, idx_);
  writer.append(0, encode_image_record(labels, 0, make_jpeg(16, 16, 0)));
  writer.close();
  EXPECT_EQ(open_dataset({.rec = rec_})->read(0, storage_).label, 1);
}

TEST_F(DatasetFolder, NamesTheExpectedFilesIfTheyAreMissing) {
  EXPECT_THAT(error(), HasSubstr("train.rec: not found; expected a folder with train.rec"));
  EXPECT_THAT(error({.rec = folder_ / "nowhere"}), HasSubstr("nowhere: not found"));
  write_file(folder_ / "other.rec", "");
  EXPECT_THAT(error(), HasSubstr("(found there: other.rec)"));
  EXPECT_THAT(error({.rec = folder_ / "other.rec"}), HasSubstr("other.rec: no records"));
}

TEST_F(DatasetFolder, ReportsATruncatedRec) {
  write_insightface(faces_);
  const auto size = std::filesystem::file_size(rec_);
  std::filesystem::resize_file(rec_, size - 1);
  EXPECT_NO_THROW(open_dataset({.rec = folder_.path()})) << "only an identity record is truncated";
  std::filesystem::resize_file(rec_, size / 2);
  EXPECT_THAT(error(), HasSubstr("points past the end of"));
  std::filesystem::remove(idx_);
  EXPECT_THAT(error(), HasSubstr("truncated"));
}

TEST_F(DatasetFolder, ReportsATruncatedLastRecord) {
  write_plain({0, 1, 2}, {0, 1, 2});
  std::filesystem::resize_file(rec_, std::filesystem::file_size(rec_) - 8);
  EXPECT_THAT(error(), HasSubstr("truncated"));
}

TEST_F(DatasetFolder, NamesAMissingOrDuplicateKey) {
  write_insightface(faces_);
  rewrite_index([](std::string text) {
    const auto line = text.find("\n7\t");
    return text.erase(line, text.find('\n', line + 1) - line);
  });
  EXPECT_THAT(error(), HasSubstr("train.idx: key 7 is missing: record 0 of"));
  rewrite_index([](std::string text) { return text + "5\t0\n"; });
  EXPECT_THAT(error(), HasSubstr("train.idx: key 5 appears twice"));
  write_plain({4, 9, 4}, {0, 1, 2});
  EXPECT_THAT(error(), HasSubstr("train.idx: key 4 appears twice"));
}

TEST_F(DatasetFolder, RejectsAHugeKeyWithoutAllocatingForIt) {
  write_insightface(faces_);
  rewrite_index([](const std::string& text) { return text + "9000000000000000000\t0\n"; });
  EXPECT_THAT(error(), HasSubstr("found key 9000000000000000000 among 27 keys"));
}

TEST_F(DatasetFolder, RejectsClassesOrImagesThatDifferBetweenJobPropertyAndRecords) {
  write_insightface(faces_);
  EXPECT_THAT(error({.rec = {}, .num_classes = 6}),
              HasSubstr("property says 5 classes, but num_classes says 6"));
  EXPECT_THAT(error({.rec = {}, .num_image = 21}),
              HasSubstr("found 20 images, but num_image is 21"));
  write_file(folder_ / "property", "7,16,16");
  EXPECT_THAT(error(), HasSubstr("property says 7 classes, but record 0 of"));
  write_file(folder_ / "property", "16,16");
  EXPECT_THAT(error(), HasSubstr("property: found '16,16', expected classes,height,width"));
  write_file(folder_ / "property", "5,16,16384");
  EXPECT_THAT(error(), HasSubstr("found '5,16,16384'"));
}

TEST_F(DatasetFolder, WarnsOfAPropertyWithAnotherSize) {
  write_insightface(faces_);
  write_file(folder_ / "property", "5,32,24");
  const auto warnings = open_dataset({.rec = folder_.path()})->info().warnings;
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings.front(), HasSubstr("property says that images are 32 x 24 (height x width), "
                                          "but the first one is 16 x 16"));
}

TEST_F(DatasetFolder, RejectsAPropertyFileThatCannotBeRead) {
  write_insightface(faces_);
  std::filesystem::remove(folder_ / "property");
  std::filesystem::create_directory(folder_ / "property");
  EXPECT_THAT(error(), HasSubstr("property: not a regular file but a folder"));
  std::filesystem::remove(folder_ / "property");
  std::filesystem::create_symlink("nowhere", folder_ / "property");
  EXPECT_THAT(error(), HasSubstr("property: cannot open: No such file"));
}

TEST_F(DatasetFolder, QuotesTheTextAfterANulByteToo) {
  write_insightface(faces_);
  write_file(folder_ / "property", std::string_view("5\0x,16,16", 9));
  EXPECT_THAT(error(), HasSubstr("found '5 x,16,16', expected classes,height,width"));
}

TEST_F(DatasetFolder, DoesNotWaitForTheWriterOfAFifo) {
  write_insightface(faces_);
  for (const char* name : {"property", "train.idx", "train.rec"}) {
    std::filesystem::remove(folder_ / name);
    ASSERT_EQ(::mkfifo((folder_ / name).c_str(), 0600), 0);
    EXPECT_THAT(error(), HasSubstr(name + std::string(": not a regular file but a FIFO")));
  }
}

TEST_F(DatasetFolder, WarnsOfRecordsMissingInTheIndex) {
  write_plain({0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5});
  EXPECT_THAT(warnings(), IsEmpty());
  cut_index(2);
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("train.idx: 4 records of ")));
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("4 of them after the last record")));
}

TEST_F(DatasetFolder, ExpectsNoIndexLinesForRecordsThatAreNotImages) {
  write_insightface(faces_);
  cut_index(21);  // record 0 and 20 images
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(DatasetFolder, RejectsAnIndexWithOneRecordForAllImages) {
  const auto all_at_0 = [](const std::string& text) {
    std::string lines;
    for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
      lines += text.substr(begin, text.find('\t', begin) - begin) + "\t0\n";
    }
    return lines;
  };
  write_insightface(faces_);
  rewrite_index(all_at_0);
  EXPECT_THAT(error(), HasSubstr("train.idx: all 20 lines for images name the same record of"));
  std::filesystem::remove(folder_ / "property");
  write_plain({0, 1, 2}, {0, 1, 2});
  rewrite_index(all_at_0);
  EXPECT_THAT(error(), HasSubstr("train.idx: all 3 lines for images name the same record of"));
}

TEST_F(DatasetFolder, DetectsATruncatedLastLineOfTheIndex) {
  write_plain({0, 1, 2}, {0, 1, 2});
  rewrite_index([](const std::string& text) {
    const std::size_t digits = text.rfind('\t') + 1;
    return text.substr(0, digits) + "4";
  });
  EXPECT_THAT(error(), HasSubstr("train.rec: offset 4: found 0x"));
}

TEST_F(DatasetFolder, NamesARecordWithAnImpossibleLabel) {
  write_plain({0, 1, 7, 3}, {0, 2, 1e30f, 1});
  EXPECT_THAT(error(), HasSubstr("train.rec: record 7 (offset "));
  EXPECT_THAT(error(), HasSubstr("found label 1e+30, expected an integer of 0 .. 16777215"));
  for (const float label : {-1.f, 0.5f, std::nanf(""), 16777216.f}) {
    write_plain({0, 9}, {0, label});
    EXPECT_THAT(error(), HasSubstr("record 9 (offset "));
  }
}

TEST_F(DatasetFolder, ReportsProgress) {
  write_plain({0, 1}, {0, 1});
  std::vector<std::string> told;
  const auto listen = [&](const std::string& what) { told.push_back(what); };
  open_dataset({.rec = folder_.path(), .doing = listen});
  EXPECT_THAT(told,
              ElementsAre(HasSubstr("train.idx: 0 MiB"), HasSubstr("reading the labels of ")));
  std::filesystem::remove(idx_);
  told.clear();
  open_dataset({.rec = folder_.path(), .num_classes = 2, .doing = listen});
  EXPECT_THAT(told, ElementsAre(HasSubstr("train.rec: 0 %")));
}

TEST_F(DatasetFolder, NamesFileRecordAndLabelOutsideTheClasses) {
  write_plain({0, 1, 2, 3, 4, 5}, {2, 3, -1, 0.5f, std::nanf(""), 1e30f});
  write_file(folder_ / "property", "3,16,24\n");
  const auto dataset = open_dataset({.rec = folder_.path()});
  EXPECT_EQ(dataset->read(0, storage_).label, 2);
  EXPECT_THAT(read_error(1), HasSubstr("train.rec: record 1 (offset "));
  EXPECT_THAT(read_error(1), HasSubstr("found label 3, expected 0 .. 2 ("));
  for (std::int64_t i = 2; i < 6; ++i) EXPECT_THAT(read_error(i), HasSubstr("expected 0 .. 2"));
}

TEST_F(DatasetFolder, RejectsMoreClassesThanFloatLabelsRepresent) {
  write_plain({0}, {0});
  EXPECT_NO_THROW(open_dataset({.rec = rec_, .num_classes = 1 << 24}));
  EXPECT_THAT(error({.rec = rec_, .num_classes = (1 << 24) + 1}), HasSubstr("float32 labels"));
  EXPECT_THROW((void)encode_image_record((1 << 24) + 1, 0, {}), InputError);
}

TEST_F(DatasetFolder, NamesARecordThatIsTooShort) {
  RecordWriter writer(rec_, idx_);
  writer.append(0, encode_image_record(0, 0, make_jpeg(16, 16, 0)));
  writer.append(41, std::vector<std::byte>(10));
  auto liar = encode_image_record(1, 0, make_jpeg(16, 16, 0));
  liar[3] = std::byte{0x7f};  // the flag claims two billion labels
  writer.append(42, liar);
  writer.close();
  EXPECT_THAT(read_error(1), HasSubstr("a record of 10 bytes is too short"));
  EXPECT_THAT(read_error(1), HasSubstr("(record 41)"));
  EXPECT_THAT(read_error(2), HasSubstr("too short"));
}

TEST_F(DatasetFolder, ReportsWhatRecordZeroShouldContain) {
  const std::vector<float> labels{5, 4};
  RecordWriter writer(rec_, idx_);
  writer.append(0, encode_image_record(labels, 0, {}));
  writer.close();
  EXPECT_THAT(error(), HasSubstr("record 0 says [5, 4], expected [images + 1, images + 1 + id"));
}

}  // namespace
}  // namespace pfc
