// Tests for CPUs only. They are not in head_gpu_test, where a skipped test counts as failed.
#include <gtest/gtest.h>

#include "common/error.h"
#include "kernels/cpu/margin/tile_products.h"
#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

TEST(Bf16ProductsOfACpu, AreRejectedWithoutInstructionsForThem) {
  if (cpu_has_bfloat16()) GTEST_SKIP() << "this CPU has bf16 instructions";
  constexpr std::int64_t kClasses = 100, kDimension = 64;
  HeadJob job;
  job.options = {.classes = kClasses, .embedding_size = kDimension, .bf16_products = true};
  job.micro_batches = {random_batch(24, kClasses, kDimension, 1)};
  EXPECT_THROW(run_head(job, 1), InputError);
}

TEST(HeadOptions, UseBf16ProductsUnlessTheJobsPrecisionIsFp32) {
  EXPECT_FALSE(head_options({.precision = Precision::kFp32}).bf16_products);
  EXPECT_TRUE(head_options({.precision = Precision::kBf16}).bf16_products);
  EXPECT_TRUE(head_options({.precision = Precision::kFp16}).bf16_products);
}

}  // namespace
}  // namespace pfc::testing
