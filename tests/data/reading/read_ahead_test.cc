#include "data/reading/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <system_error>
#include <utility>

#include "data/open_dataset.h"
#include "data/reading/async_reader.h"
#include "tests/data/reading/counting_reader.h"
#include "tests/support/face_folder.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using testing::CountingReader;
using ::testing::IsEmpty;
using testing::ReadLog;

/// Unit u has the images 10 u .. 10 u + 9, for the batches 2 u and 2 u + 1.
ReadUnit ten_each(std::int64_t batch) {
  const std::int64_t unit = batch / 2;
  return {.end_batch = 2 * unit + 2,
          .images = {{10 * unit, 10 * unit + 4}, {10 * unit + 4, 10 * unit + 10}}};
}

/// A reader for which the kernel fails on every read.
class FailingReader final : public AsyncReader {
 public:
  [[nodiscard]] int depth() const override { return 1; }
  [[nodiscard]] int under_way() const override { return under_way_; }
  void start(FileRead& /*read*/) override { ++under_way_; }
  FileRead& finish() override {
    throw std::system_error(EIO, std::generic_category(), "a broken kernel");
  }

 private:
  int under_way_ = 0;
};

/// A reader like a slow disk: it performs one read at a time, which finishes when `may_end` allows
/// it.
class SlowReader final : public AsyncReader {
 public:
  SlowReader(std::promise<void>& started, std::shared_future<void> may_end, int& reads)
      : started_(started), may_end_(std::move(may_end)), reads_(reads) {}
  [[nodiscard]] int depth() const override { return 1; }
  [[nodiscard]] int under_way() const override { return under_way_ == nullptr ? 0 : 1; }
  void start(FileRead& read) override {
    under_way_ = &read;
    if (++reads_ == 1) started_.set_value();
  }
  FileRead& finish() override {
    may_end_.wait();
    return *std::exchange(under_way_, nullptr);
  }

 private:
  std::promise<void>& started_;
  const std::shared_future<void> may_end_;
  int& reads_;
  FileRead* under_way_ = nullptr;
};

class ReadAheadOf : public ::testing::Test {
 protected:
  ReadAheadOf() {
    testing::write_insightface(
        {.folder = folder_.path(), .identities = 10, .images_per_identity = 10});
    dataset_ = open_dataset({.rec = folder_.path()});
  }
  ReadAheadOptions options() {
    return {.first_batch = 0,
            .end_batch = 20,
            .units = 2,
            .unit_bytes = 1 << 20,
            .piece_bytes = 1000,
            .make_reader = [this] {
              return std::make_unique<CountingReader>(log_, make_async_reader(4));
            }};
  }
  void expect_image(const ReadAhead::Unit& unit, std::int64_t image) {
    ImageBuffer there, here;
    const Sample expected = dataset_->read(image, there);
    const auto stored = unit.find(image);
    ASSERT_FALSE(stored.empty()) << image;
    const Sample found = dataset_->read(image, here, stored);
    EXPECT_EQ(found.label, expected.label);
    EXPECT_TRUE(std::ranges::equal(found.encoded, expected.encoded)) << image;
    EXPECT_THAT(here.stored, IsEmpty()) << "expected a view of the memory";
  }
  [[nodiscard]] std::uint64_t bytes_of(std::int64_t first, std::int64_t end) const {
    const Extent last = dataset_->extent(end - 1);
    return last.offset + last.bytes - dataset_->extent(first).offset;
  }

  const TemporaryFolder folder_;
  std::unique_ptr<Dataset> dataset_;
  ReadLog log_;
};

TEST_F(ReadAheadOf, HasTheImagesOfEachBatch) {
  ReadAhead reads(*dataset_, ten_each, options());
  for (std::int64_t batch = 0; batch < 20; ++batch) {
    const ReadAhead::Unit* unit = reads.take(batch);
    ASSERT_NE(unit, nullptr);
    for (std::int64_t i = 0; i < 10; ++i) expect_image(*unit, batch / 2 * 10 + i);
    EXPECT_THAT(unit->find((batch / 2 * 10 + 10) % 100), IsEmpty()) << "belongs to another unit";
    reads.give_back(batch);
  }
  EXPECT_EQ(log_.bytes(), bytes_of(0, 100)) << "expected to read each byte once";
  EXPECT_EQ(log_.seeks(), 1u) << "expected to read from front to back";
}

TEST_F(ReadAheadOf, LimitsTheUnitsInMemory) {
  {
    ReadAhead reads(*dataset_, ten_each, options());
    reads.take(0);
    reads.take(2);  // at this point both units are complete, and neither was released
    EXPECT_EQ(log_.bytes(), bytes_of(0, 20));
    reads.give_back(0);
    EXPECT_EQ(log_.bytes(), bytes_of(0, 20)) << "batch 1 needs the first unit too";
    reads.take(1);
    reads.give_back(1);
    EXPECT_NE(reads.take(4), nullptr);
  }
  EXPECT_EQ(log_.bytes(), bytes_of(0, 30));
}

TEST_F(ReadAheadOf, StartsInTheMiddleOfAUnit) {
  ReadAheadOptions middle = options();
  middle.first_batch = 3;
  middle.end_batch = 5;
  {
    ReadAhead reads(*dataset_, ten_each, middle);
    expect_image(*reads.take(3), 15);
    reads.give_back(3);
    expect_image(*reads.take(4), 25);
    reads.give_back(4);
  }
  EXPECT_EQ(log_.bytes(), bytes_of(10, 30)) << "expected only units of existing batches";
}

TEST_F(ReadAheadOf, LeavesImagesThatDoNotFitIntoMemoryToTheCaller) {
  ReadAheadOptions small = options();
  small.unit_bytes = bytes_of(0, 6) + 10;
  ReadAhead reads(*dataset_, ten_each, small);
  const ReadAhead::Unit* unit = reads.take(0);
  for (std::int64_t image = 0; image < 6; ++image) expect_image(*unit, image);
  for (std::int64_t image = 6; image < 10; ++image) EXPECT_THAT(unit->find(image), IsEmpty());
}

TEST_F(ReadAheadOf, LeavesUnreadableImagesToTheCaller) {
  std::filesystem::resize_file(folder_.path() / "train.rec",
                               dataset_->extent(0).offset + bytes_of(0, 4) + 5);
  ReadAhead reads(*dataset_, ten_each, options());
  const ReadAhead::Unit* unit = reads.take(0);
  for (std::int64_t image = 0; image < 4; ++image) expect_image(*unit, image);
  for (std::int64_t image = 4; image < 10; ++image) EXPECT_THAT(unit->find(image), IsEmpty());
}

TEST_F(ReadAheadOf, TakeReturnsNothingAfterAStop) {
  ReadAhead reads(*dataset_, ten_each, options());
  reads.stop();
  EXPECT_EQ(reads.take(10), nullptr);
}

TEST_F(ReadAheadOf, StopsInTheMiddleOfAUnit) {
  std::promise<void> started, may_end;
  const std::shared_future<void> gate = may_end.get_future().share();
  int count = 0;
  ReadAheadOptions slow = options();
  slow.make_reader = [&] { return std::make_unique<SlowReader>(started, gate, count); };
  {
    ReadAhead reads(*dataset_, ten_each, slow);
    started.get_future().wait();
    reads.stop();
    may_end.set_value();
  }
  EXPECT_EQ(count, 1) << "a job that ends waits for one piece of a unit only";
}

TEST_F(ReadAheadOf, RethrowsKernelErrorsToTheCaller) {
  ReadAheadOptions broken = options();
  broken.make_reader = [] { return std::make_unique<FailingReader>(); };
  ReadAhead reads(*dataset_, ten_each, broken);
  EXPECT_THROW(reads.take(0), std::system_error);
  EXPECT_THROW(reads.take(0), std::system_error);
}

}  // namespace
}  // namespace pfc
