#include "data/records/record_layout.h"

#include <gtest/gtest.h>

#include <numeric>

#include "data/records/image_record.h"
#include "data/records/writing/record_writer.h"
#include "tests/support/encoded_images.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

/// A set of many images that share one record: only the index is large.
struct LargeSet {
  LargeSet(std::int64_t images, std::int64_t identities) {
    RecordWriter writer(folder / "train.rec", folder / "train.idx");
    writer.append(0, encode_record_zero(images, identities));
    writer.append(1, encode_image_record(0, 1, testing::make_jpeg(8, 8, 1)));
    writer.append(2, encode_identity_record(2, 1, 2));
    writer.close();
    const auto offsets = RecordReader(folder / "train.rec").scan();
    index.keys.resize(static_cast<std::size_t>(1 + images + identities));
    std::iota(index.keys.begin(), index.keys.end(), std::int64_t{0});
    index.offsets.assign(index.keys.size(), offsets[2]);
    std::fill_n(index.offsets.begin() + 1, images, offsets[1]);
    index.offsets[0] = offsets[0];
  }

  TemporaryFolder folder;
  RecordIndex index;
};

TEST(RecordLayout, CountsMoreImagesThanTheFloatsOfRecordZeroCanRepresent) {
  constexpr std::int64_t kTwoTo24 = 1 << 24;
  // images + 1 is odd and above 2^24, so float32 rounds it to a multiple of 4, up or down.
  for (const std::int64_t images : {kTwoTo24 + 2, kTwoTo24 + 4}) {
    LargeSet set(images, 7);
    const RecordReader reader(set.folder / "train.rec");
    ASSERT_NE(static_cast<std::int64_t>(static_cast<float>(images + 1)), images + 1);
    const RecordLayout layout = find_images(reader, std::move(set.index), "train.idx");
    EXPECT_EQ(static_cast<std::int64_t>(layout.offsets.size()), images);
    EXPECT_EQ(layout.identities, 7);
  }
}

TEST(RecordLayout, CountsTheIdentitiesIfTheKeysEndJustBeyondThePrecisionOfFloats) {
  // The end of the images is 2^24 + 1. As float32 it is rounded to 2^24, which looks like an exact
  // number.
  LargeSet set((1 << 24) - 7, 7);
  const RecordReader reader(set.folder / "train.rec");
  ASSERT_EQ(static_cast<std::int64_t>(static_cast<float>((1 << 24) + 1)), 1 << 24);
  const RecordLayout layout = find_images(reader, std::move(set.index), "train.idx");
  EXPECT_EQ(static_cast<std::int64_t>(layout.offsets.size()), (1 << 24) - 7);
  EXPECT_EQ(layout.identities, 7);
}

TEST(RecordLayout, CountsTheIdentitiesIfTheirRangesAreRoundedToo) {
  // Both counts in record 0 are rounded to multiples of 4 in this range. So are the counts in
  // identity records, which are not used.
  constexpr std::int64_t kImages = (1 << 25) + 5;
  LargeSet set(kImages, 5);
  const RecordReader reader(set.folder / "train.rec");
  const RecordLayout layout = find_images(reader, std::move(set.index), "train.idx");
  EXPECT_EQ(static_cast<std::int64_t>(layout.offsets.size()), kImages);
  EXPECT_EQ(layout.identities, 5);
}

TEST(RecordLayout, UsesTheCountsOfRecordZeroInSmallerSets) {
  LargeSet set(1000, 7);
  const RecordReader reader(set.folder / "train.rec");
  const RecordLayout layout = find_images(reader, std::move(set.index), "train.idx");
  EXPECT_EQ(layout.offsets.size(), 1000u);
  EXPECT_EQ(layout.identities, 7);
  EXPECT_EQ(layout.key(0), 1);
}

TEST(RecordLayout, UsesEightBytesPerImageWithoutKeys) {
  LargeSet set(1000, 7);
  const RecordReader reader(set.folder / "train.rec");
  const RecordLayout layout = find_images(reader, std::move(set.index), "train.idx");
  EXPECT_GE(layout.bytes(), 8000u);
  EXPECT_LE(layout.bytes(), 8 * 1008u);
}

}  // namespace
}  // namespace pfc
