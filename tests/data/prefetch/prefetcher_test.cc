#include "data/prefetch/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "data/augment/flip.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/open_dataset.h"
#include "data/order/balanced_order.h"
#include "data/order/global_order.h"
#include "data/prefetch/batch_filler.h"
#include "data/reading/read_ahead.h"
#include "data/reading/read_plan.h"
#include "tests/support/error_message.h"
#include "tests/support/face_folder.h"
#include "tests/support/fake_dataset.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using testing::FakeDataset;
using ::testing::HasSubstr;
using testing::message_of;

/// A data set in which every read waits until `expected` threads are reading, or a minute has
/// passed.
class MeetingDataset : public FakeDataset {
 public:
  MeetingDataset(std::int64_t images, int expected) : FakeDataset(images), expected_(expected) {}
  Sample parse(std::int64_t image, StoredImage& stored) const override {
    {
      std::unique_lock lock(mutex_);
      most_ = std::max(most_, ++reading_);
      met_.notify_all();
      late_ |= !met_.wait_for(lock, std::chrono::minutes(1),
                              [&] { return late_ || most_ >= expected_; });
      --reading_;
    }
    return FakeDataset::parse(image, stored);
  }
  /// Returns the largest number of threads that were reading at the same time.
  [[nodiscard]] int most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  const int expected_;
  mutable std::mutex mutex_;
  mutable std::condition_variable met_;
  // Guarded by mutex_.
  mutable int reading_ = 0;
  mutable int most_ = 0;
  mutable bool late_ = false;
};

/// Batches of a training run, in order.
struct PrefetchedBatches {
  std::vector<std::int64_t> labels;
  std::vector<std::uint8_t> images;

  void add(const Batch& batch) {
    labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
    images.insert(images.end(), batch.images.begin(), batch.images.end());
  }
  friend bool operator==(const PrefetchedBatches&, const PrefetchedBatches&) = default;
};

PrefetchedBatches run(const Dataset& dataset, PrefetcherOptions options, std::int64_t batches) {
  options.last_batch = options.first_batch + batches;
  Prefetcher prefetcher(dataset, options);
  PrefetchedBatches seen;
  while (auto batch = prefetcher.next()) {
    seen.add(*batch);
    prefetcher.recycle(std::move(batch));
  }
  return seen;
}

/// Returns all workers' batches in the global order.
PrefetchedBatches run_all(const Dataset& dataset, PrefetcherOptions options, int world_size,
                          std::int64_t batches) {
  std::vector<std::unique_ptr<Prefetcher>> workers;
  options.world_size = world_size;
  for (options.rank = 0; options.rank < world_size; ++options.rank) {
    workers.push_back(std::make_unique<Prefetcher>(dataset, options));
  }
  PrefetchedBatches seen;
  for (std::int64_t i = 0; i < batches; ++i) {
    for (const auto& worker : workers) seen.add(*worker->next());
  }
  return seen;
}

TEST(Prefetcher, ShowsEveryImageOfAnEpochOnceExceptTheTail) {
  const FakeDataset dataset(103);
  const PrefetchedBatches seen = run(dataset, {.batch_size = 10, .seed = 3}, 20);
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    const auto begin = seen.labels.begin() + static_cast<std::ptrdiff_t>(100 * epoch);
    EXPECT_EQ(std::set(begin, begin + 100).size(), 100u);
  }
  EXPECT_NE(std::vector(seen.labels.begin(), seen.labels.begin() + 100),
            std::vector(seen.labels.begin() + 100, seen.labels.end()));
}

TEST(Prefetcher, FollowsTheBalancedOrder) {
  FakeDataset dataset(40);
  const PrefetcherOptions options{.batch_size = 10, .seed = 3, .read = {.balance_classes = true}};
  const PrefetchedBatches seen = run(dataset, options, 4);
  std::vector<std::int64_t> labels(40);
  std::iota(labels.begin(), labels.end(), 0);
  const BalancedOrder order(labels, 3, true);
  ASSERT_EQ(seen.labels.size(), 40u);
  for (std::int64_t p = 0; p < 40; ++p) {
    EXPECT_EQ(seen.labels[static_cast<std::size_t>(p)], order.at(0, p)) << p;
  }

  dataset.unreadable = {7};
  EXPECT_THAT(message_of<InputError>([&] { run(dataset, options, 4); }),
              HasSubstr("balance_classes: needs the label of every image: "));
}

TEST(Prefetcher, ReturnsAllLabelsOfEachImage) {
  class SeveralLabels : public FakeDataset {
   public:
    SeveralLabels() : FakeDataset(40), several_(FakeDataset::info()) {
      several_.labels_per_image = 3;
    }
    [[nodiscard]] const DatasetInfo& info() const override { return several_; }
    void other_labels(std::int64_t image, std::span<std::int64_t> others) const override {
      ASSERT_EQ(others.size(), 2u);
      others[0] = 100 + image;
      others[1] = -1;
    }

   private:
    DatasetInfo several_;
  };
  const PrefetchedBatches seen = run(SeveralLabels(), {.batch_size = 10, .seed = 3}, 4);
  ASSERT_EQ(seen.labels.size(), 3 * 40u);
  for (std::size_t i = 0; i < seen.labels.size(); i += 3) {
    EXPECT_EQ(seen.labels[i + 1], 100 + seen.labels[i]);
    EXPECT_EQ(seen.labels[i + 2], -1);
  }
}

TEST(Prefetcher, FollowsTheGlobalOrderAndFlipsByPosition) {
  const FakeDataset dataset(50);
  Prefetcher prefetcher(dataset,
                        {.batch_size = 4, .rank = 1, .world_size = 2, .seed = 9, .first_batch = 5});
  const GlobalOrder order(50, 9, true);
  ImageDecoder decoder;
  ImageBuffer storage;
  int flipped = 0;
  for (std::int64_t index = 5; index < 20; ++index) {
    const auto batch = prefetcher.next();
    EXPECT_EQ(batch->index, index);
    EXPECT_EQ(batch->epoch, index / 6) << "48 of 50 images make 6 global batches of 8";
    ASSERT_EQ(batch->size, 4);
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::int64_t position = (index * 2 + 1) * 4 + i;
      const std::int64_t image = order.at(position / 48, position % 48);
      EXPECT_EQ(batch->labels[static_cast<std::size_t>(i)], image);
      std::vector<std::uint8_t> rgb(8 * 8 * 3);
      decoder.decode(dataset.read(image, storage).encoded, {8, 8}, rgb);
      if (flips(9, position / 48, position % 48)) {
        flip_horizontally(rgb, 8);
        ++flipped;
      }
      const auto shown = std::span(batch->images).subspan(static_cast<std::size_t>(i) * 192, 192);
      EXPECT_TRUE(std::ranges::equal(shown, rgb));
    }
  }
  EXPECT_GT(flipped, 10);
  EXPECT_LT(flipped, 50);
}

TEST(Prefetcher, ShowsTheSameImagesToAnyNumberOfWorkers) {
  const FakeDataset dataset(100);
  const PrefetchedBatches one = run_all(dataset, {.batch_size = 12, .seed = 3}, 1, 20);
  EXPECT_EQ(one, run_all(dataset, {.batch_size = 4, .seed = 3}, 3, 20));
  EXPECT_EQ(one, run_all(dataset, {.batch_size = 1, .seed = 3}, 12, 20));
}

TEST(Prefetcher, ReturnsTheSameBatchesForAnyNumberOfThreads) {
  FakeDataset dataset(2000);
  dataset.cut = {5, 700};
  const PrefetcherOptions one{.batch_size = 16, .seed = 3, .threads = 1};
  PrefetcherOptions many = one;
  many.threads = 7;
  many.depth = 3;
  EXPECT_EQ(run(dataset, one, 125), run(dataset, many, 125));
}

TEST(Prefetcher, ContinuesInTheMiddleOfAnEpoch) {
  const FakeDataset dataset(103);
  const PrefetcherOptions options{.batch_size = 10, .seed = 3};
  const PrefetchedBatches whole = run(dataset, options, 25);
  PrefetchedBatches parts = run(dataset, options, 13);
  PrefetcherOptions rest = options;
  rest.first_batch = 13;
  const PrefetchedBatches second = run(dataset, rest, 12);
  parts.labels.insert(parts.labels.end(), second.labels.begin(), second.labels.end());
  parts.images.insert(parts.images.end(), second.images.begin(), second.images.end());
  EXPECT_EQ(parts, whole);
}

TEST(Prefetcher, ShufflesAndFlipsOnlyIfConfigured) {
  const FakeDataset dataset(20);
  const PrefetchedBatches plain =
      run(dataset, {.batch_size = 10, .shuffle = false, .augmentation = {.flip = false}}, 2);
  ImageDecoder decoder;
  ImageBuffer storage;
  for (std::int64_t image = 0; image < 20; ++image) {
    EXPECT_EQ(plain.labels[static_cast<std::size_t>(image)], image);
    std::vector<std::uint8_t> rgb(192);
    decoder.decode(dataset.read(image, storage).encoded, {8, 8}, rgb);
    EXPECT_TRUE(std::ranges::equal(
        std::span(plain.images).subspan(static_cast<std::size_t>(image) * 192, 192), rgb));
  }
}

TEST(Prefetcher, ReturnsNullAfterTheLastBatch) {
  const FakeDataset dataset(20);
  Prefetcher prefetcher(dataset, {.batch_size = 10, .first_batch = 1, .last_batch = 3});
  EXPECT_EQ(prefetcher.next()->index, 1);
  EXPECT_EQ(prefetcher.next()->index, 2);
  EXPECT_EQ(prefetcher.next(), nullptr);
  EXPECT_EQ(prefetcher.next(), nullptr);
}

TEST(Prefetcher, UsesNoMoreMemoryThanStated) {
  constexpr int kHeld = 3;
  const FakeDataset dataset(40);
  const PrefetcherOptions options{.batch_size = 4, .threads = 3};
  Prefetcher prefetcher(dataset, options);
  std::deque<std::unique_ptr<Batch>> held;
  std::map<const void*, std::size_t> memory;  // by batch
  for (int i = 0; i < 60; ++i) {
    held.push_back(prefetcher.next());
    const Batch& batch = *held.back();
    memory[&batch] = batch.images.capacity() + batch.labels.capacity() * sizeof(batch.labels[0]);
    if (held.size() < kHeld) continue;
    prefetcher.recycle(std::move(held.front()));
    held.pop_front();
  }
  std::size_t taken = 0;
  for (const auto& [batch, bytes] : memory) taken += bytes;
  EXPECT_LE(taken, prefetcher_bytes(prefetch_depth(options.threads), kHeld,
                                    Batch::bytes(options.batch_size, 8 * 8 * 3)));
  EXPECT_EQ(memory.begin()->second, Batch::bytes(options.batch_size, 8 * 8 * 3));
}

TEST(Prefetcher, ReusesRecycledMemory) {
  const FakeDataset dataset(20);
  Prefetcher prefetcher(dataset, {.batch_size = 10, .threads = 1, .depth = 1, .max_damaged = 0});
  std::set<const void*> buffers;
  for (int i = 0; i < 20; ++i) {
    auto batch = prefetcher.next();
    buffers.insert(batch->images.data());
    prefetcher.recycle(std::move(batch));
  }
  EXPECT_LE(buffers.size(), 3u) << "one being filled, one ready, one with the caller";
}

TEST(Prefetcher, KeepsEveryDecodingThreadBusy) {
  constexpr int kThreads = 9;
  const MeetingDataset dataset(200, kThreads);
  Prefetcher prefetcher(dataset, {.batch_size = 10, .threads = kThreads});
  EXPECT_NE(prefetcher.next(), nullptr);
  EXPECT_EQ(dataset.most(), kThreads);
}

TEST(Prefetcher, KeepsABoundedNumberOfBatchesAhead) {
  EXPECT_EQ(prefetch_depth(1), 4);
  EXPECT_EQ(prefetch_depth(2), 4);
  EXPECT_EQ(prefetch_depth(8), 10);
  EXPECT_EQ(prefetch_depth(1024), kMaxPrefetchDepth);
}

TEST(Prefetcher, CanBeDestroyedAtAnyTime) {
  const FakeDataset dataset(20);
  for (int batches = 0; batches < 5; ++batches) {
    Prefetcher prefetcher(dataset, {.batch_size = 10, .threads = 3});
    for (int i = 0; i < batches; ++i) EXPECT_NE(prefetcher.next(), nullptr);
  }
}

TEST(Prefetcher, MeasuresTheTimeSpentWaiting) {
  const FakeDataset dataset(20);
  Prefetcher prefetcher(dataset, {.batch_size = 10});
  EXPECT_GT(prefetcher.next()->wait_seconds, 0);
}

TEST(Prefetcher, RejectsImagesThatDoNotFillABatch) {
  const FakeDataset dataset(20);
  EXPECT_THAT(message_of<InputError>(
                  [&] { const Prefetcher made(dataset, {.batch_size = 11, .world_size = 2}); }),
              HasSubstr("20 images, fewer than one batch of 22 (2 workers x batch_size 11)"));
}

class DamagedImages : public ::testing::Test {
 protected:
  /// Returns the labels at the epoch's positions. Adds up the damage reported by the last batches.
  std::map<std::int64_t, std::int64_t> labels_by_position(int world_size) {
    std::map<std::int64_t, std::int64_t> labels;
    skipped_ = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      Prefetcher prefetcher(dataset_, {.batch_size = 100 / world_size,
                                       .rank = rank,
                                       .world_size = world_size,
                                       .seed = 4,
                                       .last_batch = 20,
                                       .max_damaged = 0.01});
      std::int64_t skipped = 0;
      while (const auto batch = prefetcher.next()) {
        for (std::int64_t i = 0; i < batch->size; ++i) {
          labels[(batch->index * world_size + rank) * batch->size + i] =
              batch->labels[static_cast<std::size_t>(i)];
        }
        skipped = batch->skipped_images;
      }
      skipped_ += skipped;
    }
    return labels;
  }

  FakeDataset dataset_{2000};
  GlobalOrder order_{2000, 4, true};
  std::int64_t skipped_ = 0;
};

TEST_F(DamagedImages, AreReplacedByTheNextUndamagedImage) {
  dataset_.cut = {order_.at(0, 10), order_.at(0, 11), order_.at(0, 700)};
  dataset_.unreadable = {order_.at(0, 1999)};
  for (const int world_size : {1, 2, 4}) {
    const auto labels = labels_by_position(world_size);
    ASSERT_EQ(labels.size(), 2000u);
    for (const auto& [position, label] : labels) {
      std::int64_t shown = position;
      if (position == 10 || position == 11) shown = 12;
      if (position == 700) shown = 701;
      if (position == 1999) shown = 0;
      EXPECT_EQ(label, order_.at(0, shown)) << position;
    }
    EXPECT_EQ(skipped_, 4);
  }
}

TEST_F(DamagedImages, EndTheJobWhenThereAreTooMany) {
  for (std::int64_t p = 0; p < 5; ++p) dataset_.cut.insert(order_.at(0, 500 + 2 * p));
  // Allows 4 of 2000 images to be damaged.
  const PrefetcherOptions options{.batch_size = 10, .seed = 4, .max_damaged = 0.002};
  Prefetcher prefetcher(dataset_, options);
  for (int i = 0; i < 50; ++i) EXPECT_NE(prefetcher.next(), nullptr);
  const std::string message = message_of<InputError>([&] { prefetcher.next(); });
  EXPECT_THAT(message, HasSubstr("more than 0.2 % of epoch 0's images are damaged"));
  EXPECT_THAT(message, HasSubstr("pfcctl data validate --fix, or raise max_damaged"));
  EXPECT_THAT(message, HasSubstr("fake.rec: record " + std::to_string(order_.at(0, 508))));
  EXPECT_EQ(message_of<InputError>([&] { prefetcher.next(); }), message) << "must be repeated";
}

TEST_F(DamagedImages, EndTheJobAboveALimitThatIsNotAWholeNumber) {
  for (std::int64_t p = 0; p < 5; ++p) dataset_.cut.insert(order_.at(0, 500 + 2 * p));
  // Allows 4.5 of 2000 images to be damaged.
  Prefetcher prefetcher(dataset_, {.batch_size = 10, .seed = 4, .max_damaged = 0.00225});
  for (int i = 0; i < 50; ++i) EXPECT_NE(prefetcher.next(), nullptr);
  EXPECT_THROW(prefetcher.next(), InputError);
}

TEST_F(DamagedImages, AreAllowedUpToThreeInASmallSetByDefault) {
  for (std::int64_t p = 0; p < 3; ++p) dataset_.cut.insert(order_.at(0, 500 + 2 * p));
  // The default allows 0.1 % of the images to be damaged: 2 of 2000.
  Prefetcher prefetcher(dataset_, {.batch_size = 10, .seed = 4});
  for (int i = 0; i < 60; ++i) EXPECT_NE(prefetcher.next(), nullptr);
  Prefetcher strict(dataset_, {.batch_size = 10, .seed = 4, .max_damaged = 0});
  for (int i = 0; i < 50; ++i) EXPECT_NE(strict.next(), nullptr);
  EXPECT_THROW(strict.next(), InputError);
}

TEST_F(DamagedImages, AreCountedByEpoch) {
  dataset_.cut = {1, 2};
  Prefetcher prefetcher(dataset_, {.batch_size = 1000, .seed = 4, .last_batch = 20});
  std::vector<std::int64_t> counts;
  while (const auto batch = prefetcher.next()) counts.push_back(batch->skipped_images);
  for (std::size_t i = 1; i < counts.size(); i += 2) EXPECT_EQ(counts[i], 2);
}

TEST_F(DamagedImages, EndTheJobImmediatelyIfAllAreDamaged) {
  for (std::int64_t i = 0; i < 2000; ++i) dataset_.cut.insert(i);
  Prefetcher prefetcher(dataset_, {.batch_size = 10});
  EXPECT_THAT(message_of<InputError>([&] { prefetcher.next(); }), HasSubstr("fake.rec: record"));
}

TEST(Prefetcher, ContinuesAtAnyPositionWithAnotherNumberOfWorkers) {
  const FakeDataset dataset(50);
  const GlobalOrder order(50, 7, true);
  // The loader starts at image 13 of epoch 2, with 2 workers x 8 images: it reads 13 .. 44, then
  // epoch 3.
  Prefetcher prefetcher(dataset, {.batch_size = 8,
                                  .rank = 1,
                                  .world_size = 2,
                                  .seed = 7,
                                  .first_batch = 9,
                                  .start = DataPlace{2, 13}});
  for (const auto& [epoch, first] : {std::pair{2, 13}, {2, 29}, {3, 0}, {3, 16}, {3, 32}, {4, 0}}) {
    const auto batch = prefetcher.next();
    ASSERT_EQ(batch->epoch, epoch);
    for (std::int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(batch->labels[static_cast<std::size_t>(i)], order.at(epoch, first + 8 + i))
          << first;
    }
  }
}

TEST_F(DamagedImages, DoNotHideABadLabel) {
  dataset_.bad_label = order_.at(0, 25);
  Prefetcher prefetcher(dataset_, {.batch_size = 10, .seed = 4});
  EXPECT_NE(prefetcher.next(), nullptr);
  EXPECT_NE(prefetcher.next(), nullptr);
  EXPECT_THAT(message_of<InputError>([&] { prefetcher.next(); }), HasSubstr("label of image"));
}

TEST(PrefetcherOnDisk, StopsReadingWhenItsReadAheadIsStopped) {
  const TemporaryFolder folder;
  write_insightface(testing::FaceFolder{.folder = folder.path()});
  const auto dataset = open_dataset({.rec = folder.path()});
  const BatchPlan plan{.images = dataset->info().images, .batch_size = 5};
  const GlobalOrder order(plan.images, 0, false);
  ReadAhead reads(
      *dataset, plan_random_reads(order, plan),
      {.end_batch = 1, .unit_bytes = 1 << 20, .piece_bytes = 1 << 20, .make_reader = [] {
         return make_async_reader(1);
       }});
  reads.stop();
  std::filesystem::resize_file(folder.path() / "train.rec", 0);  // any read would report damage
  const BatchSource source{.dataset = *dataset, .plan = plan, .order = order, .reads = &reads};
  BatchFiller filler(source);
  Batch batch;
  EXPECT_THAT(filler.fill(2, batch), ::testing::IsEmpty());
}

/// With less memory, many threads would share it, so that none would have a whole batch in memory.
TEST(ReadAheadBytes, AreEnoughForABatchOfEachThread) {
  const StoredImages stored{.images = 1'000'000, .mean_bytes = 20'000};
  for (const int threads : {1, 8, 64}) {
    const double batch = 128 * stored.mean_bytes;
    EXPECT_GT(static_cast<double>(read_ahead_bytes({}, stored, 128, 1, threads)),
              (threads + 2) * batch * 9 / 8)
        << "reads an eighth more for the next batch";
  }
  EXPECT_EQ(read_ahead_bytes({}, {}, 128, 1, 8), 0u) << "such data are not read ahead";
}

TEST(ReadAheadBytes, AreNoMoreThanTheBufferOfSequentialReading) {
  const ReadOptions options{.kind = ReadKind::kSequential, .buffer_bytes = 1 << 20};
  EXPECT_EQ(read_ahead_bytes(options, {1000, 20'000}, 8, 4, 1), std::size_t{1 << 20} / 4);
  EXPECT_EQ(read_ahead_bytes(options, {100, 1000}, 8, 4, 1), 2 * 100 / 4 * 1250u);
}

}  // namespace
}  // namespace pfc
