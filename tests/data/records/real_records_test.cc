// Tests training sets written by other programs (PFC_TEST_DATA).
#include <gtest/gtest.h>

#include <set>

#include "common/error.h"
#include "data/images/decode.h"
#include "data/open_dataset.h"
#include "data/prefetch/prefetcher.h"
#include "data/records/record_index.h"
#include "data/records/record_reader.h"
#include "tests/support/test_data.h"

namespace pfc {
namespace {

class RealRecords : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::test_data()) GTEST_SKIP() << "PFC_TEST_DATA is not set: no real data to read";
  }
  static std::filesystem::path path(const std::string& file) {
    return *testing::test_data() / file;
  }
  /// Reads and decodes every image at the data set's size.
  static std::set<std::int64_t> labels_of_all_images(const Dataset& dataset) {
    std::set<std::int64_t> labels;
    ImageDecoder decoder;
    ImageBuffer storage;
    const ImageSize size{dataset.info().height, dataset.info().width};
    std::vector<std::uint8_t> rgb(static_cast<std::size_t>(size.height * size.width * 3));
    for (std::int64_t i = 0; i < dataset.info().images; ++i) {
      const Sample sample = dataset.read(i, storage);
      decoder.decode(sample.encoded, size, rgb);
      labels.insert(sample.label);
    }
    return labels;
  }
  static void expect_size(const Dataset& dataset, std::int64_t images, std::int64_t side) {
    EXPECT_EQ(dataset.info().images, images);
    EXPECT_EQ(dataset.info().height, side);
    EXPECT_EQ(dataset.info().width, side);
  }
};

TEST_F(RealRecords, ReadLfwInInsightFacesLayout) {
  const auto dataset =
      open_dataset({.rec = path("lfw112"), .num_classes = 5298, .num_image = 11622});
  expect_size(*dataset, 11622, 112);
  EXPECT_EQ(dataset->info().classes, 5298);
  EXPECT_EQ(labels_of_all_images(*dataset).size(), 5298u);
  const RecordReader reader(path("lfw112/train.rec"));
  EXPECT_EQ(scan_records(reader).offsets,
            read_record_index(path("lfw112/train.idx"), reader).offsets);
}

TEST_F(RealRecords, ReadLfwThroughThePrefetcher) {
  const auto dataset = open_dataset({.rec = path("lfw112")});
  Prefetcher prefetcher(*dataset, {.batch_size = 128, .seed = 1, .last_batch = 90});
  std::int64_t images = 0;
  while (auto batch = prefetcher.next()) {
    images += batch->size;
    EXPECT_EQ(batch->skipped_images, 0);
    prefetcher.recycle(std::move(batch));
  }
  EXPECT_EQ(images, 90 * 128);
}

TEST_F(RealRecords, ReadShuffledKeysWithoutRecordZero) {
  const auto mkm = open_dataset({.rec = path("recordio/mkm_testing.rec")});
  expect_size(*mkm, 217, 112);
  EXPECT_EQ(mkm->info().classes, 25);
  EXPECT_EQ(labels_of_all_images(*mkm).size(), 25u);

  const auto adaface = open_dataset({.rec = path("recordio/adaface_train.rec")});
  EXPECT_EQ(adaface->info().images, 8);
  EXPECT_EQ(labels_of_all_images(*adaface).size(), 2u);
}

TEST_F(RealRecords, NeedNoIndex) {
  const auto aifit = open_dataset({.rec = path("recordio/aifit_validation.rec")});
  expect_size(*aifit, 98, 160);
  EXPECT_FALSE(labels_of_all_images(*aifit).empty());

  const auto cgzzt = open_dataset({.rec = path("recordio/cgzzt_val.rec")});
  expect_size(*cgzzt, 392, 28);
  EXPECT_EQ(labels_of_all_images(*cgzzt).size(), 20u);
}

TEST_F(RealRecords, UseTheFirstOfAVectorOfLabels) {
  const auto enkh = open_dataset({.rec = path("recordio/enkh_train.rec")});
  EXPECT_EQ(enkh->info().images, 12) << "record 0 has labels and an image: it is not a header";
  ImageDecoder decoder;
  ImageBuffer storage;
  for (std::int64_t i = 0; i < 12; ++i) {
    const Sample sample = enkh->read(i, storage);
    EXPECT_EQ(sample.label, 4);
    const ImageSize size = decoder.size(sample.encoded);
    std::vector<std::uint8_t> rgb(static_cast<std::size_t>(size.height * size.width * 3));
    EXPECT_NO_THROW(decoder.decode(sample.encoded, size, rgb)) << "record " << i;
  }
}

TEST_F(RealRecords, ReadRecordsSplitAtTheMagicByDmlc) {
  const RecordReader reader(path("recordio/dmlc_magic_multipart.rec"));
  const std::vector<std::uint64_t> offsets = reader.scan();
  ASSERT_EQ(offsets.size(), 20u);
  ImageBuffer storage;
  for (std::size_t k = 0; k < offsets.size(); ++k) {
    EXPECT_EQ(reader.read(offsets[k], storage).size(), 37 * k) << "record " << k;
  }
}

}  // namespace
}  // namespace pfc
