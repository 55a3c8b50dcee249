// Compares heads whose tables are in a file to heads whose tables are in memory: every bit must be
// the same.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

constexpr std::int64_t kFileSamples = 6, kFileDimension = 200;

class HeadWithFile : public ::testing::Test {
 protected:
  HeadWithFile() {
    job_.options = {.classes = 1500,
                    .embedding_size = kFileDimension,
                    .scale = 16,
                    .sample_rate = 0.01,
                    .seed = 5,
                    .weight_decay = 1e-3};
    job_.reads_ahead = 2;
    use_steps(200);
  }

  void use_steps(std::uint64_t micro_batches) {
    job_.micro_batches.clear();
    for (std::uint64_t i = 0; i < micro_batches; ++i) {
      job_.micro_batches.push_back(
          random_batch(kFileSamples, job_.options.classes, kFileDimension, 100 + i));
    }
  }

  [[nodiscard]] HeadOutcome<float> run_with_file(std::size_t cache_pages, int workers) const {
    HeadJob job = job_;
    job.options.centre_file = {.folder = folder_.path(), .cache = cache_pages * kPageBytes};
    return run_head(job, workers, 2);
  }

  void expect_same_bits(const std::vector<std::size_t>& cache_pages, int workers) const {
    const HeadOutcome<float> want = run_head(job_, workers, 2);
    for (const std::size_t pages : cache_pages) {
      const HeadOutcome<float> got = run_with_file(pages, workers);
      EXPECT_EQ(got.losses, want.losses) << pages << " pages, " << workers << " workers";
      EXPECT_EQ(got.centres, want.centres) << pages << " pages, " << workers << " workers";
      EXPECT_EQ(got.momentum, want.momentum) << pages << " pages, " << workers << " workers";
      EXPECT_EQ(got.second, want.second) << pages << " pages, " << workers << " workers";
    }
  }

  const TemporaryFolder folder_;
  HeadJob job_;
};

// The smallest cache has room for the rows of one step only, the largest for the whole table.
TEST_F(HeadWithFile, ComputesTheSameBitsForEveryCacheAndNumberOfWorkers) {
  for (const int workers : {1, 2, 3}) expect_same_bits({100, 200, 600}, workers);
}

TEST_F(HeadWithFile, ComputesTheSameBitsForEveryPrecision) {
  use_steps(60);
  for (const CentrePrecision precision :
       {CentrePrecision::kFp32, CentrePrecision::kBf16Momentum, CentrePrecision::kBf16,
        CentrePrecision::kInt8, CentrePrecision::kFp8}) {
    for (const double momentum : {0.9, 0.0}) {
      job_.options.centre_precision = precision;
      job_.options.momentum = momentum;
      expect_same_bits({70, 150}, 2);
    }
  }
}

TEST_F(HeadWithFile, ComputesTheSameBitsForAdamWSubCentresAndSampleRates) {
  use_steps(40);
  for (const double rate : {0.0, 0.3, 1.0}) {
    job_.options.sample_rate = rate;
    for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
      job_.options.optimizer = optimizer;
      job_.options.sub_centres = optimizer == OptimizerKind::kSgd ? 3 : 1;
      expect_same_bits({2000}, 1);
      expect_same_bits({1000, 2500}, 2);
    }
  }
}

TEST_F(HeadWithFile, ComputesTheSameBitsWithMicroBatchesAndSkippedUpdates) {
  job_.options.gradient_acc = 2;
  expect_same_bits({120, 300}, 2);
  job_.options.gradient_acc = 1;
  job_.options.moves_later = true;
  job_.updates_left_out = {3, 7, 8};
  expect_same_bits({120, 300}, 2);
}

TEST_F(HeadWithFile, ReadsRowsThatWereNotReadAhead) {
  job_.reads_ahead = 0;
  job_.resumes = true;
  use_steps(20);
  expect_same_bits({120}, 2);
}

TEST_F(HeadWithFile, RejectsACacheThatIsTooSmallForAStep) {
  job_.options.sample_rate = 1;
  const std::string text = message_of<InputError>([&] { static_cast<void>(run_with_file(50, 1)); });
  EXPECT_EQ(text,
            "centre_cache: the class centres of one step need 3 MiB on this worker, found 1; set "
            "centre_cache to at least 3, better three times as much");
}

}  // namespace
}  // namespace pfc::testing
