#include "pfcctl/data/shuffle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <numeric>

#include "common/error.h"
#include "data/open_dataset.h"
#include "data/records/image_record.h"
#include "data/records/record_reader.h"
#include "data/records/writing/record_writer.h"
#include "pfcctl/data/pack/pack.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/verbs.h"
#include "tests/pfcctl/data/people.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using testing::contents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::read_file;
using testing::write_people;

std::vector<std::int64_t> order_of(ShuffleOrder order) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < order.blocks(); ++i) {
    for (const std::int64_t image : order.take_block()) all.push_back(image);
    EXPECT_LE(order.left_after(i), std::ssize(all));
  }
  return all;
}

TEST(ShuffleOrder, HasEveryImageOnce) {
  for (const std::int64_t images : {1, 31, 32, 33, 1000}) {
    for (const std::int64_t pool : {32, 40, 64, 1000, 5000}) {
      std::vector<std::int64_t> order = order_of({images, 32, pool, 7});
      std::ranges::sort(order);
      std::vector<std::int64_t> all(static_cast<std::size_t>(images));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(order, all) << images << " images, a pool of " << pool;
    }
  }
}

TEST(ShuffleOrder, IsTheOwnOrderWithoutShuffle) {
  std::vector<std::int64_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order_of({100, 32, 40, 7, /*shuffle=*/false}), all);
}

TEST(ShuffleOrder, HoldsNoMoreThanItsPool) {
  constexpr std::int64_t kPool = 100;
  ShuffleOrder order(5000, 32, kPool, 3);
  std::int64_t held = 0;
  for (std::int64_t i = 0; i < order.blocks(); ++i) {
    const auto [begin, end] = order.block(i);
    held += end - begin;
    EXPECT_LE(held, kPool);
    held -= std::ssize(order.take_block());
  }
}

TEST(ShuffleOrder, IsEqualForEqualSeedsAndDiffersForOthers) {
  EXPECT_EQ(order_of({500, 32, 100, 1}), order_of({500, 32, 100, 1}));
  EXPECT_NE(order_of({500, 32, 100, 1}), order_of({500, 32, 100, 2}));
}

/// Tests the correlation of an image's old and new place: 1/sqrt(n) by chance.
TEST(ShuffleOrder, IsIndependentOfTheOldOrder) {
  constexpr std::int64_t kImages = 20'000;
  for (const std::int64_t pool : {64, 2000, 20'000}) {
    const std::vector<std::int64_t> order = order_of({kImages, 32, pool, 5});
    double sum = 0;
    std::int64_t neighbours = 0;
    for (std::int64_t i = 0; i < kImages; ++i) {
      const double middle = (kImages - 1) / 2.0;
      const std::int64_t image = order[static_cast<std::size_t>(i)];
      sum += (static_cast<double>(i) - middle) * (static_cast<double>(image) - middle);
      neighbours += i > 0 && std::abs(image - order[static_cast<std::size_t>(i - 1)]) == 1;
    }
    const double variance = (static_cast<double>(kImages) * kImages - 1) / 12;
    // Images of one block stay together if the pool is small, so only blocks are independent.
    EXPECT_LT(std::abs(sum / kImages / variance), 5 / std::sqrt(kImages / 32.0)) << pool;
    if (pool >= 2000) {
      EXPECT_LT(neighbours, kImages / 100) << pool;
    }
  }
}

class Shuffle : public ::testing::Test {
 protected:
  Shuffle() { write_people(folder_ / "people", 40, 5); }

  TemporaryFolder folder_;
  // Small enough for several pools.
  ShuffleOptions options_{
      .in = folder_ / "people", .out = folder_ / "out", .memory = 64 * 1000, .threads = 3};
};

TEST_F(Shuffle, KeepsEveryByteLabelAndName) {
  const Shuffled shuffled = shuffle_dataset(options_, {});
  EXPECT_EQ(shuffled.images, 200);
  EXPECT_EQ(shuffled.classes, 40);
  const auto before = open_dataset({.rec = options_.in});
  const auto after = open_dataset({.rec = options_.out});
  EXPECT_TRUE(after->info().warnings.empty());
  EXPECT_EQ(after->info().height, before->info().height);
  EXPECT_EQ(after->identity(17), "p17");
  auto was = contents(*before), is = contents(*after);
  EXPECT_NE(is, was);
  std::ranges::sort(was);
  std::ranges::sort(is);
  EXPECT_EQ(is, was);
}

TEST_F(Shuffle, WritesTheSameForAnyNumberOfThreads) {
  shuffle_dataset(options_, {});
  const auto three = read_file(options_.out / "train.rec");
  options_.out = folder_ / "one";
  options_.threads = 1;
  shuffle_dataset(options_, {});
  EXPECT_EQ(read_file(options_.out / "train.rec"), three);
  options_.out = folder_ / "seed";
  options_.seed = 2;
  shuffle_dataset(options_, {});
  EXPECT_NE(read_file(options_.out / "train.rec"), three);
}

TEST_F(Shuffle, RejectsTheFolderOfItsInputFilesAsOutput) {
  shuffle_dataset(options_, {});
  fs::rename(options_.out / "train.rec", options_.out / "part-0.rec");
  fs::rename(options_.out / "train.idx", options_.out / "part-0.idx");
  options_.in = options_.out / "part-{0..0}.rec";
  EXPECT_THAT(message_of<InputError>([&] { shuffle_dataset(options_, {}); }),
              HasSubstr("--out is the data set itself"));
}

/// Extra labels of a record may matter to the user.
TEST_F(Shuffle, KeepsWholeRecords) {
  fs::create_directories(folder_ / "vectors");
  std::vector<std::vector<std::byte>> payloads;
  {
    RecordWriter writer(folder_ / "vectors/train.rec", folder_ / "vectors/train.idx");
    for (int i = 0; i < 70; ++i) {
      const std::vector<float> labels{static_cast<float>(i), 0.5f, -3};
      payloads.push_back(encode_image_record(labels, static_cast<std::uint64_t>(1000 + i),
                                             testing::make_jpeg(16, 16, 1 + i)));
      writer.append(i, payloads.back());
    }
    writer.close();
  }
  options_.in = folder_ / "vectors";
  shuffle_dataset(options_, {});
  const RecordReader reader(options_.out / "train.rec");
  std::vector<std::vector<std::byte>> after;
  ImageBuffer storage;
  for (const std::uint64_t offset : reader.scan()) {
    const auto payload = reader.read(offset, storage);
    after.emplace_back(payload.begin(), payload.end());
  }
  std::ranges::sort(payloads);
  std::ranges::sort(after);
  EXPECT_EQ(after, payloads);
}

TEST(ShuffleOrder, ReturnsAllImagesInTheLastBlockIfTheBufferHoldsThem) {
  ShuffleOrder order(33, 32, 33, 7);
  EXPECT_EQ(order.left_after(0), 0);
  EXPECT_TRUE(order.take_block().empty());
  EXPECT_EQ(order.take_block().size(), 33u);
}

TEST_F(Shuffle, ContinuesAfterAnInterruptAndWritesTheSame) {
  shuffle_dataset(options_, {});
  const auto whole = read_file(options_.out / "train.rec");
  const auto first = contents(*open_dataset({.rec = options_.out})).front().bytes;
  const auto file_of_first = [&] {
    for (const auto& entry : fs::recursive_directory_iterator(options_.in)) {
      if (entry.is_regular_file() && read_file(entry.path()) == first) return entry.path();
    }
    return fs::path();
  }();
  ASSERT_FALSE(file_of_first.empty());
  for (const std::int64_t end : {20, 60, 130, 199}) {
    options_.out = folder_ / ("cut-" + std::to_string(end));
    const auto stop = [&](std::int64_t done, std::int64_t) {
      if (done >= end) throw ExitStatus{130};
    };
    EXPECT_THROW(shuffle_dataset(options_, stop), ExitStatus);
    EXPECT_FALSE(fs::exists(options_.out / "train.rec"));
    // Written images are not read again: the source image may have changed since.
    auto other = first;
    other.back() ^= std::byte{1};
    testing::write_file(file_of_first, other);
    shuffle_dataset(options_, {});
    EXPECT_EQ(read_file(options_.out / "train.rec"), whole) << end;
    testing::write_file(file_of_first, first);
  }
}

TEST_F(Shuffle, SkipsUnreadableImagesUpToTheLimit) {
  fs::remove(folder_ / "people/p03/2.jpg");
  fs::create_symlink("nowhere", folder_ / "people/p03/2.jpg");
  EXPECT_THAT(message_of<InputError>([&] { shuffle_dataset(options_, {}); }),
              HasSubstr("1 of 200 images are damaged, more than the 0 of --max-damaged"));
  options_.max_damaged = 0.01;
  const Shuffled shuffled = shuffle_dataset(options_, {});
  EXPECT_EQ(shuffled.images, 199);
  EXPECT_THAT(shuffled.damaged, ElementsAre(HasSubstr("p03/2.jpg")));
  EXPECT_EQ(open_dataset({.rec = options_.out})->info().images, 199);
}

TEST_F(Shuffle, RealFacesKeepTheirBytes) {
  const auto data = testing::test_data();
  if (!data) GTEST_SKIP() << "PFC_TEST_DATA is not set";
  options_.in = *data / "lfw112";
  options_.memory = 5'000'000;
  shuffle_dataset(options_, {});
  const auto before = open_dataset({.rec = options_.in});
  const auto after = open_dataset({.rec = options_.out});
  auto was = contents(*before), is = contents(*after);
  std::ranges::sort(was);
  std::ranges::sort(is);
  EXPECT_EQ(is, was);
  PackOptions pack{.in = options_.out, .out = folder_ / "packed"};
  pack_dataset(pack, {});
  EXPECT_EQ(open_dataset({.rec = pack.out})->info().images, 11'622);
}

}  // namespace
}  // namespace pfc
