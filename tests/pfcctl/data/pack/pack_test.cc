// Packs data sets of every layout as RecordIO and reads them back.
#include "pfcctl/data/pack/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "data/images/decode.h"
#include "data/open_dataset.h"
#include "data/records/image_record.h"
#include "data/records/record_reader.h"
#include "data/records/writing/record_writer.h"
#include "pfcctl/data/info.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/interrupt_guard.h"
#include "pfcctl/verbs.h"
#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

namespace pfc {
namespace {

using testing::draw_waves;
using ::testing::ElementsAre;
using testing::encode_webp;
using ::testing::HasSubstr;
using testing::make_jpeg;
using testing::message_of;

class Pack : public ::testing::Test {
 protected:
  void write(const std::string& path, std::span<const std::byte> bytes) const {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void write_people() const {
    write("people/bob/1.jpg", make_jpeg(20, 20, 1));
    write("people/ada/1.jpg", make_jpeg(20, 20, 2));
    write("people/ada/2.webp", encode_webp(draw_waves(20, 20, 3), 20, 20));
    write("people/eve/1.jpg", make_jpeg(20, 20, 4));
  }
  static std::vector<std::byte> bytes_of(const Dataset& dataset, std::int64_t image) {
    ImageBuffer storage;
    const Sample sample = dataset.read(image, storage);
    return {sample.encoded.begin(), sample.encoded.end()};
  }
  static std::vector<std::int64_t> labels_of(const Dataset& dataset) {
    std::vector<std::int64_t> all;
    ImageBuffer storage;
    for (std::int64_t i = 0; i < dataset.info().images; ++i) {
      all.push_back(dataset.label(i, storage));
    }
    return all;
  }

  TemporaryFolder folder_;
  PackOptions options_{.in = folder_ / "people", .out = folder_ / "out", .threads = 3};
};

TEST_F(Pack, KeepsEveryByteLabelAndName) {
  write_people();
  const Packed packed = pack_dataset(options_, {});
  EXPECT_EQ(packed.images, 4);
  EXPECT_EQ(packed.classes, 3);
  const auto before = open_dataset({.rec = options_.in});
  const auto after = open_dataset({.rec = options_.out});
  EXPECT_EQ(after->info().layout, "RecordIO with InsightFace's record 0");
  EXPECT_EQ(labels_of(*after), labels_of(*before));
  EXPECT_EQ(after->info().height, 20);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(bytes_of(*after, i), bytes_of(*before, i));
  EXPECT_EQ(after->identity(2), "eve");
  EXPECT_TRUE(after->info().warnings.empty());
}

TEST_F(Pack, SortsByLabelAndWritesTheRangesOfIdentities) {
  write("a/1.jpg", make_jpeg(20, 20, 1));
  write("a/2.jpg", make_jpeg(20, 20, 2));
  write("a/3.jpg", make_jpeg(20, 20, 3));
  const std::string list = "0\t2\t1.jpg\n1\t0\t2.jpg\n2\t2\t3.jpg\n";
  write("a/train.lst", std::as_bytes(std::span(list)));
  options_.in = folder_ / "a";
  pack_dataset(options_, {});
  const auto after = open_dataset({.rec = options_.out});
  EXPECT_THAT(labels_of(*after), ElementsAre(0, 2, 2));
  EXPECT_EQ(bytes_of(*after, 0), make_jpeg(20, 20, 2));
  const RecordReader reader(options_.out / "train.rec");
  ImageBuffer storage;
  std::vector<std::pair<float, float>> ranges;
  for (const std::uint64_t offset : reader.scan()) {
    const auto record = parse_image_record(reader.read(offset, storage));
    if (record->flag == 2) ranges.emplace_back(record->label_at(0), record->label_at(1));
  }
  EXPECT_THAT(ranges, ElementsAre(std::pair(4.f, 7.f), std::pair(1.f, 2.f), std::pair(2.f, 2.f),
                                  std::pair(2.f, 4.f)));
}

TEST_F(Pack, ResizesAndEncodesTheSameForAnyNumberOfThreads) {
  write_people();
  options_.size = 16;
  options_.quality = 80;
  pack_dataset(options_, {});
  const auto three = open_dataset({.rec = options_.out});
  options_.out = folder_ / "one";
  options_.threads = 1;
  pack_dataset(options_, {});
  const auto one = open_dataset({.rec = options_.out});
  ImageDecoder decoder;
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(bytes_of(*three, i), bytes_of(*one, i));
    EXPECT_EQ(decoder.size(bytes_of(*one, i)), (ImageSize{16, 16}));
    EXPECT_STREQ(decoder.format(bytes_of(*one, i)), "JPEG");
  }
}

TEST_F(Pack, SkipsDamagedImagesUpToTheLimit) {
  write_people();
  write("people/ada/3.jpg", std::as_bytes(std::span("no image")));
  EXPECT_THAT(message_of<InputError>([&] { pack_dataset(options_, {}); }),
              HasSubstr("1 of 5 images are damaged, more than the 0 of --max-damaged"));
  EXPECT_FALSE(std::filesystem::exists(options_.out / "train.rec"));
  options_.max_damaged = 0.3;
  const Packed packed = pack_dataset(options_, {});
  EXPECT_EQ(packed.images, 4);
  EXPECT_THAT(packed.damaged, ElementsAre(HasSubstr("ada/3.jpg: ")));
  EXPECT_THAT(labels_of(*open_dataset({.rec = options_.out})), ElementsAre(0, 0, 1, 2));
}

TEST_F(Pack, RejectsAnExistingDataSet) {
  write_people();
  pack_dataset(options_, {});
  EXPECT_THAT(message_of<InputError>([&] { pack_dataset(options_, {}); }),
              HasSubstr("train.rec: already exists"));
  options_.replace = true;
  EXPECT_NO_THROW(pack_dataset(options_, {}));
  options_.out = options_.in / "." / "";
  EXPECT_THAT(message_of<InputError>([&] { pack_dataset(options_, {}); }),
              HasSubstr("is the data set itself"));
}

/// Otherwise the new set, which has no names, would be read with the names of the old one.
TEST_F(Pack, RemovesTheNamesOfTheDataSetThatItReplaces) {
  write_people();
  pack_dataset(options_, {});
  EXPECT_TRUE(std::filesystem::exists(options_.out / "identities.txt"));
  const std::string list = "0\t0\t1.jpg\n1\t1\t1.jpg\n";
  write("a/1.jpg", make_jpeg(20, 20, 1));
  write("a/train.lst", std::as_bytes(std::span(list)));
  options_.in = folder_ / "a";
  options_.replace = true;
  pack_dataset(options_, {});
  EXPECT_FALSE(std::filesystem::exists(options_.out / "identities.txt"));
  EXPECT_EQ(open_dataset({.rec = options_.out})->info().classes, 2);
}

TEST_F(Pack, WritesEachNameOnOneLine) {
  write("people/a\nb/1.jpg", make_jpeg(20, 20, 1));
  write("people/c/1.jpg", make_jpeg(20, 20, 2));
  pack_dataset(options_, {});
  EXPECT_EQ(open_dataset({.rec = options_.out})->identity(0), "a_b");
}

TEST_F(Pack, RejectsTheFolderOfItsInput) {
  write_people();
  pack_dataset(options_, {});
  options_.in = options_.out / "train.rec";
  options_.replace = true;
  EXPECT_THAT(message_of<InputError>([&] { pack_dataset(options_, {}); }),
              HasSubstr("is the data set itself"));
}

/// Otherwise the property file could not be read again.
TEST_F(Pack, RejectsImagesThatAreLargerThanADataSetAllows) {
  write("people/a/1.jpg", make_jpeg(5000, 16, 1));
  EXPECT_THAT(message_of<InputError>([&] { pack_dataset(options_, {}); }),
              HasSubstr("found images of 5000 x 16 (height x width), expected at most 4096"));
  options_.size = 64;
  pack_dataset(options_, {});
  EXPECT_EQ(open_dataset({.rec = options_.out})->info().height, 64);
}

TEST_F(Pack, EndsAtAnInterruptWhileReadingLabels) {
  write_people();
  const InterruptGuard guard;
  std::raise(SIGINT);
  EXPECT_THROW(pack_dataset(options_, {}), ExitStatus);
  EXPECT_FALSE(std::filesystem::exists(options_.out / "train.rec.part"));
}

TEST_F(Pack, ContinuesAfterAnInterrupt) {
  write_people();
  pack_dataset(options_, {});
  const auto whole = testing::read_file(options_.out / "train.rec");
  options_.out = folder_ / "interrupted";
  {
    Progress progress("packing", "images");
    const auto interrupt = [&](std::int64_t done, std::int64_t all) {
      if (done == 2) std::raise(SIGINT);
      progress.show(done, all);
    };
    try {
      pack_dataset(options_, interrupt);
      FAIL() << "the interrupt was ignored";
    } catch (const ExitStatus& exit) {
      EXPECT_EQ(exit.status, 130);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(options_.out / "train.rec"));
  std::vector<std::int64_t> done;
  EXPECT_EQ(pack_dataset(options_, [&](std::int64_t n, std::int64_t) { done.push_back(n); }).images,
            4);
  EXPECT_EQ(done.front(), 3) << "two images were written before";
  EXPECT_EQ(testing::read_file(options_.out / "train.rec"), whole);
}

TEST_F(Pack, ReplacesNoDataSetWrittenAfterAnInterrupt) {
  write_people();
  write("packed/train.rec.begun.part", std::as_bytes(std::span("pack of something")));
  write("packed/train.rec", std::as_bytes(std::span("somebody's")));
  options_.out = folder_ / "packed";
  EXPECT_THAT(testing::message_of<InputError>([&] { pack_dataset(options_, {}); }),
              HasSubstr("train.rec: already exists"));
}

TEST_F(Pack, ContinuesAfterSkippedDamage) {
  write_people();
  write("people/ada/3.jpg", std::as_bytes(std::span("no image")));
  write("people/eve/0.jpg", std::as_bytes(std::span("no image")));
  options_.max_damaged = 0.5;
  pack_dataset(options_, {});
  const auto whole = testing::read_file(options_.out / "train.rec");
  for (const std::int64_t end : {1, 2, 3, 5, 6}) {
    options_.out = folder_ / ("cut-" + std::to_string(end));
    const auto stop = [&](std::int64_t done, std::int64_t) {
      if (done == end) throw ExitStatus{130};
    };
    EXPECT_THROW(pack_dataset(options_, stop), ExitStatus);
    const Packed packed = pack_dataset(options_, {});
    EXPECT_EQ(packed.images, 4);
    EXPECT_EQ(packed.damaged.size(), 2u);
    EXPECT_EQ(testing::read_file(options_.out / "train.rec"), whole) << end;
  }
}

TEST_F(Pack, RealFacesKeepTheirBytes) {
  const auto data = testing::test_data();
  if (!data) GTEST_SKIP() << "PFC_TEST_DATA is not set";
  options_.in = *data / "lfw112";
  const Packed packed = pack_dataset(options_, {});
  EXPECT_EQ(packed.images, 11'622);
  EXPECT_EQ(packed.classes, 5298);
  const auto before = open_dataset({.rec = options_.in});
  const auto after = open_dataset({.rec = options_.out});
  EXPECT_EQ(labels_of(*after), labels_of(*before)) << "the set is sorted by label already";
  for (std::int64_t i = 0; i < packed.images; i += 7) {
    ASSERT_EQ(bytes_of(*after, i), bytes_of(*before, i));
  }
  EXPECT_EQ(after->identity(17), before->identity(17));
}

TEST_F(Pack, InfoCountsInvalidLabels) {
  write_people();
  pack_dataset(options_, {});
  RecordWriter writer(folder_ / "out/train.rec", folder_ / "out/train.idx");
  writer.append(0, encode_image_record(0, 0, make_jpeg(20, 20, 1)));
  writer.append(1, encode_image_record(9, 1, make_jpeg(20, 20, 2)));
  writer.close();
  const auto dataset = open_dataset({.rec = options_.out});
  const DataSummary s = summarise(*dataset, true);
  EXPECT_EQ(s.looked_at, 1);
  EXPECT_EQ(s.mislabelled, 1);
  EXPECT_EQ(s.without_label, 1);
  EXPECT_THAT(summary_text(*dataset, s),
              HasSubstr("wrong labels          1 of the samples checked"));
}

TEST_F(Pack, InfoDescribesTheDataSet) {
  write_people();
  const auto dataset = open_dataset({.rec = options_.in});
  const DataSummary s = summarise(*dataset, true);
  EXPECT_EQ(s.least, 1);
  EXPECT_EQ(s.most, 2);
  EXPECT_THAT(s.histogram, ElementsAre(2, 1));
  EXPECT_EQ(s.formats.at("WebP"), 1);
  EXPECT_EQ(s.sizes.at("20 x 20"), 4);
  const std::string text = summary_text(*dataset, s);
  EXPECT_THAT(text, HasSubstr("images                4\n"));
  EXPECT_THAT(text, HasSubstr("JPEG 75 %, WebP 25 %"));
  EXPECT_THAT(text, HasSubstr("least 1, median 1, mean 1.3, most 2"));
  EXPECT_THAT(summary_json(*dataset, s), HasSubstr("\"images\": 4"));
}

}  // namespace
}  // namespace pfc
