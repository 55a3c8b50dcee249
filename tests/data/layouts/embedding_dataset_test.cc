#include "data/layouts/embedding_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/error.h"
#include "data/combined_dataset.h"
#include "data/damaged_image.h"
#include "data/job_data.h"
#include "data/open_dataset.h"
#include "data/prefetch/prefetcher.h"
#include "tests/support/array_files.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using testing::bytes_of_numbers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::npy;
using testing::safetensors;
using testing::write_file;

class Embeddings : public ::testing::Test {
 protected:
  void write_npy(const std::vector<float>& rows, const std::string& shape,
                 const std::vector<std::int64_t>& labels) const {
    write_file(folder_ / "embeddings.npy", npy("<f4", shape, bytes_of_numbers(rows)));
    write_labels(labels);
  }
  void write_labels(const std::vector<std::int64_t>& labels) const {
    write_file(folder_ / "labels.npy",
               npy("<i8", "(" + std::to_string(labels.size()) + ",)", bytes_of_numbers(labels)));
  }
  [[nodiscard]] std::unique_ptr<Dataset> open() const {
    return open_dataset({.rec = folder_.path()});
  }
  [[nodiscard]] std::string error(DatasetOptions options = {}) const {
    options.rec = folder_.path();
    return message_of<InputError>([&] { open_dataset(options); });
  }
  std::vector<float> row(const Dataset& dataset, std::int64_t image) {
    const Sample sample = dataset.read(image, storage_);
    std::vector<float> numbers(sample.encoded.size() / sizeof(float));
    std::memcpy(numbers.data(), sample.encoded.data(), sample.encoded.size());
    return numbers;
  }

  TemporaryFolder folder_;
  ImageBuffer storage_;
};

TEST_F(Embeddings, ReadsNumPysArrays) {
  write_npy({1, 2, 3, 4, 5, 6}, "(3, 2)", {0, 4, 1});
  const auto dataset = open();
  EXPECT_EQ(dataset->info().images, 3);
  EXPECT_EQ(dataset->info().classes, 5);
  EXPECT_EQ(dataset->info().embedding_size, 2);
  EXPECT_EQ(dataset->info().layout, "embeddings of 2 numbers, float32");
  EXPECT_THAT(row(*dataset, 1), ElementsAre(3, 4));
  EXPECT_EQ(dataset->read(1, storage_).label, 4);
  EXPECT_EQ(dataset->label(2, storage_), 1);
  EXPECT_THAT(dataset->name(2), HasSubstr("embeddings.npy: row 2"));
}

TEST_F(Embeddings, WidensHalfPrecisionExactly) {
  // 1, -2, the largest, the smallest normal and the smallest subnormal number, -0.
  const std::vector<std::uint16_t> halves{0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x8000};
  write_file(folder_ / "embeddings.npy", npy("<f2", "(1, 6)", bytes_of_numbers(halves)));
  write_labels({0});
  const auto found = row(*open(), 0);
  EXPECT_THAT(found, ElementsAre(1.F, -2.F, 65504.F, 0x1p-14F, 0x1p-24F, 0.F));
  EXPECT_TRUE(std::signbit(found.back()));
}

TEST_F(Embeddings, ReadsSafetensorsWithTensorsAtOddAddresses) {
  const std::vector<std::uint16_t> halves{0x3f80, 0x4049, 0xc000, 0x3f00};  // bfloat16
  write_file(folder_ / "embeddings.safetensors",
             safetensors({{"x", "U8", "[1]", "x"},
                          {"embeddings", "BF16", "[2,2]", bytes_of_numbers(halves)},
                          {"labels", "I32", "[2]", bytes_of_numbers<std::int32_t>({7, 0})}}));
  const auto dataset = open();
  EXPECT_THAT(row(*dataset, 0), ElementsAre(1.F, 3.140625F));
  EXPECT_THAT(row(*dataset, 1), ElementsAre(-2.F, 0.5F));
  EXPECT_EQ(dataset->label(0, storage_), 7);
  EXPECT_EQ(dataset->info().classes, 8);
}

TEST_F(Embeddings, DistinguishesMoreClassesThanFloatsCan) {
  const std::int64_t large = (std::int64_t{1} << 24) + 1;
  write_npy({1, 2, 3, 4}, "(2, 2)", {large, 0});
  const auto dataset = open();
  EXPECT_EQ(dataset->info().classes, large + 1);
  EXPECT_EQ(dataset->read(0, storage_).label, large);
}

TEST_F(Embeddings, ReportsWhatIsWrongWithTheArrays) {
  write_npy({1, 2, 3, 4}, "(4,)", {0, 1});
  EXPECT_THAT(error(), HasSubstr("embeddings.npy: found [4] of float32, expected embeddings"));
  write_npy({1, 2, 3, 4}, "(2, 2)", {0, 1, 2});
  EXPECT_THAT(error(), HasSubstr("labels.npy: found [3] of int64, expected labels [2] of int64"));
  write_npy({}, "(0, 2)", {});
  EXPECT_THAT(error(), HasSubstr("found no embeddings"));
  write_npy({}, "(2, 0)", {0, 1});
  EXPECT_THAT(error(), HasSubstr("expected embeddings [images, 1 .. 65536]"));
  write_npy({1, 2, 3, 4}, "(2, 2)", {0, -1});
  EXPECT_THAT(error(), HasSubstr("labels.npy: found label -1 of row 1, expected 0 .. "));
  std::filesystem::remove(folder_ / "labels.npy");
  EXPECT_THAT(error(), HasSubstr("labels.npy: found no such file, expected the labels of "));
}

TEST_F(Embeddings, AreDamagedIfANumberIsNotFiniteOrAllAreZero) {
  write_npy({1, std::numeric_limits<float>::quiet_NaN(), 0, 0}, "(2, 2)", {0, 1});
  const auto dataset = open();
  EXPECT_THAT(message_of<DamagedImage>([&] { dataset->read(0, storage_); }),
              HasSubstr("embeddings.npy: row 0: found nan at column 1"));
  EXPECT_THAT(message_of<DamagedImage>([&] { dataset->read(1, storage_); }),
              HasSubstr("row 1: found only zeros"));
}

/// Reading a label when it is needed would take a second request for each sample.
TEST_F(Embeddings, KeepLabelsInMemory) {
  write_npy({1, 2, 3, 4}, "(2, 2)", {0, 1});
  const auto dataset = open();
  EXPECT_GE(dataset->info().index_bytes, 2 * sizeof(std::int64_t));
  write_labels({0, 2});
  EXPECT_EQ(dataset->read(1, storage_).label, 1);
  EXPECT_EQ(dataset->label(1, storage_), 1);
}

TEST_F(Embeddings, AreFloatsInBatches) {
  write_npy({1, 2, 3, 4, 5, 6, 7, 8}, "(4, 2)", {3, 2, 1, 0});
  const auto dataset = open();
  Prefetcher prefetcher(*dataset, {.batch_size = 2, .shuffle = false, .last_batch = 2});
  (void)prefetcher.next();
  const auto batch = prefetcher.next();
  EXPECT_EQ(bytes_of_numbers(batch->images), bytes_of_numbers<float>({5, 6, 7, 8}));
  EXPECT_THAT(batch->labels, ElementsAre(1, 0));
}

TEST_F(Embeddings, AreCombinedOnlyWithEmbeddingsOfTheSameSize) {
  write_npy({1, 2, 3, 4}, "(2, 2)", {0, 1});
  const TemporaryFolder other;
  write_file(other / "embeddings.npy", npy("<f4", "(1, 3)", bytes_of_numbers<float>({1, 2, 3})));
  write_file(other / "labels.npy", npy("<i8", "(1,)", bytes_of_numbers<std::int64_t>({0})));
  JobConfig job{.network = "none", .rec = {folder_.path(), folder_.path()}};
  job.embedding_size = 0;
  EXPECT_EQ(open_job_data_and_complete(job)->info().classes, 4);
  EXPECT_EQ(job.embedding_size, 2);
  job.rec[1] = other.path();
  job.num_classes = job.num_image = 0;
  EXPECT_THAT(message_of<InputError>([&] { open_job_data_and_complete(job); }),
              HasSubstr("embeddings of 2 numbers, but "));
}

TEST_F(Embeddings, RequireAJobWithoutNetworkAndWithTheirSize) {
  write_npy({1, 2, 3, 4}, "(2, 2)", {0, 1});
  const auto error_of = [&](JobConfig job) {
    job.rec = {folder_.path()};
    return message_of<InputError>([&] { open_job_data_and_complete(job); });
  };
  EXPECT_THAT(error_of({.network = "r50"}), HasSubstr("set network to \"none\""));
  EXPECT_THAT(error_of({.network = "none", .embedding_size = 3}),
              HasSubstr("found 2 numbers in each embedding, but embedding_size is 3"));
}

}  // namespace
}  // namespace pfc
