// Tests complete loaders with sequential reading.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <set>

#include "data/combined_dataset.h"
#include "data/job_data.h"
#include "data/mapping/overlay.h"
#include "data/open_dataset.h"
#include "data/prefetch/prefetcher.h"
#include "data/records/record_index.h"
#include "tests/data/reading/counting_reader.h"
#include "tests/support/error_message.h"
#include "tests/support/face_folder.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using testing::CountingReader;
using ::testing::HasSubstr;
using testing::message_of;
using testing::ReadLog;
using ::testing::StartsWith;

struct SequentialBatches {
  std::vector<std::int64_t> labels;
  std::vector<std::uint8_t> images;
  std::int64_t skipped = 0;
  void add(const Batch& batch) {
    labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
    images.insert(images.end(), batch.images.begin(), batch.images.end());
    skipped = batch.skipped_images;
  }
  friend bool operator==(const SequentialBatches&, const SequentialBatches&) = default;
};

/// 240 images of 16 x 16 pixels, each of another class, in windows of about 48 images.
class SequentialReading : public ::testing::Test {
 protected:
  static constexpr std::int64_t kImages = 240;
  SequentialReading() {
    testing::write_insightface(
        {.folder = folder_.path(), .identities = kImages, .images_per_identity = 1});
    dataset_ = open_dataset({.rec = folder_.path()});
  }
  [[nodiscard]] PrefetcherOptions options(std::int64_t batch_size = 8) const {
    // A window uses 7/16 of the buffer.
    const std::uint64_t window = dataset_->info().bytes_in_order / 5;
    return {.batch_size = batch_size,
            .seed = 3,
            .read = {.kind = ReadKind::kSequential, .buffer_bytes = window * 16 / 7 + 100}};
  }
  static SequentialBatches run(const Dataset& dataset, PrefetcherOptions o, std::int64_t batches) {
    o.last_batch = o.first_batch + batches;
    Prefetcher prefetcher(dataset, o);
    SequentialBatches seen;
    while (auto batch = prefetcher.next()) {
      seen.add(*batch);
      prefetcher.recycle(std::move(batch));
    }
    return seen;
  }
  /// Returns all workers' batches in the global order.
  static SequentialBatches run_all(const Dataset& dataset, PrefetcherOptions o, int workers,
                                   std::int64_t batches) {
    std::vector<std::unique_ptr<Prefetcher>> all;
    o.world_size = workers;
    for (o.rank = 0; o.rank < workers; ++o.rank)
      all.push_back(std::make_unique<Prefetcher>(dataset, o));
    SequentialBatches seen;
    for (std::int64_t i = 0; i < batches; ++i) {
      for (const auto& worker : all) seen.add(*worker->next());
    }
    return seen;
  }
  /// Logs the reads of a worker for this number of batches.
  void log_reads(const Dataset& dataset, PrefetcherOptions o, std::int64_t batches, ReadLog& log) {
    o.make_reader = [&log] { return std::make_unique<CountingReader>(log, make_async_reader(4)); };
    run(dataset, o, batches);
  }

  const TemporaryFolder folder_;
  std::unique_ptr<Dataset> dataset_;
};

TEST_F(SequentialReading, ShowsEveryImageOfAnEpochOnce) {
  const SequentialBatches seen = run(*dataset_, options(), 60);
  for (std::ptrdiff_t epoch = 0; epoch < 2; ++epoch) {
    const auto begin = seen.labels.begin() + kImages * epoch;
    EXPECT_EQ(std::set(begin, begin + kImages).size(), 240u);
  }
}

TEST_F(SequentialReading, ShowsTheSameImagesToAnyNumberOfWorkers) {
  const SequentialBatches one = run_all(*dataset_, options(24), 1, 25);
  EXPECT_EQ(one, run_all(*dataset_, options(8), 3, 25));
  EXPECT_EQ(one, run_all(*dataset_, options(2), 12, 25));
}

TEST_F(SequentialReading, ReturnsTheSameBatchesForAnyNumberOfThreads) {
  PrefetcherOptions many = options();
  many.threads = 7;
  PrefetcherOptions one = options();
  one.threads = 1;
  EXPECT_EQ(run(*dataset_, one, 70), run(*dataset_, many, 70));
}

TEST_F(SequentialReading, ContinuesInTheMiddleOfAWindowAfterReadingOnlyThatWindow) {
  const SequentialBatches whole = run(*dataset_, options(), 45);
  ReadLog log;
  PrefetcherOptions rest = options();
  rest.first_batch = 39;
  log_reads(*dataset_, rest, 1, log);
  EXPECT_LE(log.bytes(), dataset_->info().bytes_in_order / 4) << "one of 5 windows, and a margin";
  const SequentialBatches second = run(*dataset_, rest, 6);
  EXPECT_TRUE(std::equal(second.labels.begin(), second.labels.end(), whole.labels.end() - 48));
  EXPECT_TRUE(std::equal(second.images.begin(), second.images.end(),
                         whole.images.end() - std::ssize(second.images)));
}

TEST_F(SequentialReading, ReadsEachRecordOnceWithOneSeekPerWindow) {
  for (const int workers : {1, 2, 4}) {
    std::size_t bytes = 0;
    PrefetcherOptions o = options(24 / workers);
    o.world_size = workers;
    for (o.rank = 0; o.rank < workers; ++o.rank) {
      ReadLog log;
      log_reads(*dataset_, o, 10, log);
      bytes += log.bytes();
      EXPECT_LE(log.seeks(), 5u + 1) << "one seek per window, one at the end of the file";
      EXPECT_GE(log.seeks(), 2u);
    }
    EXPECT_EQ(bytes, dataset_->info().bytes_in_order) << workers << " workers";
  }
}

TEST_F(SequentialReading, ReplacesADamagedImageByTheNextImage) {
  // The record keeps its length, but its image has no valid header.
  std::fstream file(folder_.path() / "train.rec", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(dataset_->extent(100).offset + 8 + kImageHeaderBytes));
  file.write("damaged", 7);
  file.close();
  PrefetcherOptions o = options(24);
  o.max_damaged = 0.01;
  const SequentialBatches one = run_all(*dataset_, o, 1, 10);
  o.batch_size = 4;
  o.make_reader = {};
  const SequentialBatches six = run_all(*dataset_, o, 6, 10);
  EXPECT_EQ(one.labels, six.labels);
  EXPECT_EQ(one.images, six.images);
  EXPECT_EQ(one.skipped, 1);
  EXPECT_EQ(std::set(one.labels.begin(), one.labels.end()).count(100), 0u);
}

TEST_F(SequentialReading, MixesSeveralDataSetsEvenly) {
  const TemporaryFolder other;
  testing::write_insightface({.folder = other.path(), .identities = 120, .images_per_identity = 1});
  std::vector<PartDataset> parts(2);
  parts[0].dataset = open_dataset({.rec = folder_.path()});
  parts[1].dataset = open_dataset({.rec = other.path()});
  const auto both = combine_datasets(std::move(parts), SharedIdentities::kNone);
  const SequentialBatches one = run_all(*both, options(24), 1, 15);
  EXPECT_EQ(std::set(one.labels.begin(), one.labels.end()).size(), 360u);
  EXPECT_EQ(one, run_all(*both, options(8), 3, 15));
  for (std::ptrdiff_t batch = 0; batch < 15; ++batch) {
    const auto begin = one.labels.begin() + 24 * batch;
    const auto of_first = std::count_if(begin, begin + 24, [](auto l) { return l < kImages; });
    EXPECT_GT(of_first, 8) << "16 on average";
    EXPECT_LT(of_first, 24);
  }
  ReadLog log;
  log_reads(*both, options(24), 15, log);
  EXPECT_LE(log.seeks(), 2 * 8u + 2) << "expected one seek per set and window";
}

TEST_F(SequentialReading, ReadsTheFilesOfOneSetInOrder) {
  const TemporaryFolder one, several;
  const auto record = [](std::int64_t i) {
    return encode_image_record(i, 0, testing::make_jpeg(16, 16, static_cast<unsigned>(i)));
  };
  RecordWriter whole(one.path() / "train.rec", one.path() / "train.idx");
  for (std::int64_t i = 0; i < 120; ++i) whole.append(i, record(i));
  whole.close();
  for (std::int64_t begin = 0; begin < 120; begin += 24) {
    const std::string name = "train-" + std::to_string(begin / 24);
    RecordWriter part(several.path() / (name + ".rec"), several.path() / (name + ".idx"));
    for (std::int64_t i = begin; i < begin + 24; ++i) part.append(i, record(i));
    part.close();
  }
  const auto of_one = open_dataset({.rec = one.path()});
  const auto of_several = open_dataset({.rec = several.path()});
  EXPECT_THAT(of_several->info().part_images, ::testing::IsEmpty()) << "expected a single data set";
  const SequentialBatches expected = run_all(*of_one, options(8), 1, 40);
  EXPECT_EQ(run_all(*of_several, options(8), 1, 40), expected);
  EXPECT_EQ(run_all(*of_several, options(2), 4, 40), expected);
  ReadLog log;
  log_reads(*of_several, options(8), 15, log);
  EXPECT_EQ(log.bytes(), of_one->info().bytes_in_order) << "expected only the read-ahead";
}

TEST_F(SequentialReading, NamesASetThatIsNotInFileOrder) {
  const TemporaryFolder people;
  std::filesystem::create_directories(people.path() / "ada");
  const auto jpeg = testing::make_jpeg(16, 16, 1);
  testing::write_file(people.path() / "ada" / "1.jpg", jpeg);
  JobConfig job;
  job.rec = {people.path(), folder_.path()};
  job.read = ReadKind::kSequential;
  EXPECT_THAT(message_of<InputError>([&] { open_job_data(job); }),
              HasSubstr("but " + (people.path() / "ada/1.jpg").string()));
  job.rec = {folder_.path(), people.path()};
  EXPECT_THAT(message_of<InputError>([&] { open_job_data(job); }),
              HasSubstr("but " + (people.path() / "ada/1.jpg").string()));
}

TEST_F(SequentialReading, RejectsDataThatAreNotInFileOrder) {
  const RecordReader reader(folder_.path() / "train.rec");
  const RecordIndex index = read_record_index(folder_.path() / "train.idx", reader);
  JobConfig job;
  job.rec = {folder_.path()};
  job.read = ReadKind::kSequential;
  EXPECT_NO_THROW(open_job_data(job)) << "without shuffle, images are in file order";
  std::ofstream swapped(folder_.path() / "train.idx");
  for (std::size_t i = 0; i < index.keys.size(); ++i) {
    swapped << index.keys[i] << '\t' << index.offsets[i == 1 ? 2 : i == 2 ? 1 : i] << '\n';
  }
  swapped.close();
  EXPECT_THAT(message_of<InputError>([&] { open_job_data(job); }),
              StartsWith("read: \"sequential\" needs RecordIO whose .idx is in the order"));
}

/// A .rec with an index that names only every tenth image, as in a cleaned data set.
class IndexOfAPart : public ::testing::Test {
 protected:
  IndexOfAPart() {
    testing::write_insightface(
        {.folder = folder_.path(), .identities = 300, .images_per_identity = 1});
    const RecordReader reader(folder_.path() / "train.rec");
    whole_ = read_record_index(folder_.path() / "train.idx", reader);
    name([](std::int64_t image) { return image % 10 == 0; });
  }
  /// Writes an index with the images that are wanted. Image i has the key i + 1. There is no record
  /// 0, so each line is an image.
  void name(const std::function<bool(std::int64_t image)>& wanted) const {
    std::ofstream idx(folder_.path() / "train.idx");
    for (std::size_t key = 1; key <= 300; ++key) {
      if (!wanted(static_cast<std::int64_t>(key) - 1)) continue;
      idx << whole_.keys[key] << '\t' << whole_.offsets[key] << '\n';
    }
  }
  [[nodiscard]] std::unique_ptr<Dataset> open() const {
    return open_dataset({.rec = folder_.path()});
  }

  const TemporaryFolder folder_;
  RecordIndex whole_;
};

TEST_F(IndexOfAPart, RandomReadingReadsOnlyTheRecordsThatItNames) {
  const auto dataset = open();
  ASSERT_EQ(dataset->info().images, 30);
  ReadLog log;
  PrefetcherOptions o{.batch_size = 10, .shuffle = false, .last_batch = 1};
  o.make_reader = [&log] { return std::make_unique<CountingReader>(log, make_async_reader(4)); };
  std::set<std::int64_t> labels;
  {
    Prefetcher prefetcher(*dataset, o);
    const auto batch = prefetcher.next();
    labels.insert(batch->labels.begin(), batch->labels.end());
  }
  EXPECT_EQ(labels, (std::set<std::int64_t>{0, 10, 20, 30, 40, 50, 60, 70, 80, 90}));
  const std::uint64_t own = 10 * (whole_.offsets[11] - whole_.offsets[1]) / 10;
  EXPECT_LE(log.bytes(), 2 * own);
}

TEST_F(IndexOfAPart, CannotBeReadSequentiallyIfMostRecordsAreMissing) {
  EXPECT_THAT(message_of<InputError>([&] { check_sequential(*open()); }),
              StartsWith("read: \"sequential\" needs RecordIO whose .idx is in the order"));
}

TEST_F(IndexOfAPart, CanBeReadSequentiallyIfFewRecordsAreMissing) {
  name([](std::int64_t image) { return image % 20 != 7; });
  EXPECT_NO_THROW(check_sequential(*open()));
  // No record is missing between the first and the last of these images.
  name([](std::int64_t image) { return image > 100 && image < 200; });
  EXPECT_NO_THROW(check_sequential(*open()));
}

TEST_F(SequentialReading, LeavesOutImagesOfAnOverlay) {
  Overlay overlay{.images = kImages, .identities = kImages};
  for (std::int64_t i = 0; i < kImages; i += 5) {
    overlay.of_identities.push_back({.of = i});
    overlay.of_images.push_back({.of = i});
  }
  const auto dataset = overlaid(open_dataset({.rec = folder_.path()}), overlay);
  const SequentialBatches one = run_all(*dataset, options(24), 1, 8);
  EXPECT_EQ(std::set(one.labels.begin(), one.labels.end()).size(), 192u);
  EXPECT_EQ(one, run_all(*dataset, options(8), 3, 8));
  ReadLog log;
  log_reads(*dataset, options(24), 8, log);
  EXPECT_GT(log.bytes(), dataset->info().bytes_in_order / 2) << "expected reads ahead";
}

TEST_F(SequentialReading, RejectsFolders) {
  const TemporaryFolder people;
  std::filesystem::create_directories(people.path() / "a");
  const auto jpeg = testing::make_jpeg(16, 16, 1);
  std::ofstream(people.path() / "a" / "1.jpg", std::ios::binary)
      .write(reinterpret_cast<const char*>(jpeg.data()), std::ssize(jpeg));
  JobConfig job;
  job.rec = {people.path()};
  job.read = ReadKind::kSequential;
  EXPECT_THAT(message_of<InputError>([&] { open_job_data(job); }),
              HasSubstr("pfcctl data shuffle"));
}

TEST_F(SequentialReading, RejectsABufferThatIsTooSmall) {
  PrefetcherOptions o = options(100);
  o.read.buffer_bytes = 1000;
  EXPECT_THAT(message_of<InputError>([&] { const Prefetcher made(*dataset_, o); }),
              HasSubstr("global batches, of 100 images each"));
}

TEST_F(SequentialReading, WarnsOfAFileThatIsSortedByClass) {
  EXPECT_EQ(sequential_warning(*dataset_), std::nullopt) << "each class has one image";
  const TemporaryFolder sorted;
  testing::write_insightface(
      {.folder = sorted.path(), .identities = 20, .images_per_identity = 20});
  EXPECT_THAT(*sequential_warning(*open_dataset({.rec = sorted.path()})),
              HasSubstr("are sorted by class"));
}

}  // namespace
}  // namespace pfc
