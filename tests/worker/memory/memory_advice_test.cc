#include "worker/memory/memory_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <regex>

#include "comm/memory_store.h"
#include "common/error.h"
#include "common/machine/process_memory.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

class MemoryAdvice : public ::testing::Test {
 protected:
  [[nodiscard]] std::uint64_t need(const std::function<void(JobConfig&)>& change) const {
    PlannedJob other = planned_;
    change(other.job);
    return plan_memory(other, plan_backbone(other), 0).total();
  }
  [[nodiscard]] LargestThatFits largest(std::uint64_t available) const {
    return largest_that_fits(planned_, plan_backbone(planned_), available);
  }
  [[nodiscard]] std::string advice_for(std::uint64_t available) const {
    return advice(planned_, plan_backbone(planned_), {available, "a test"});
  }

  PlannedJob planned_{.job = {.network = "mbf", .batch_size = 64, .num_classes = 200'000},
                      .data = {.height = 32, .width = 32}};
};

TEST_F(MemoryAdvice, LargestNumberOfClassesFitsAndOneMoreDoesNot) {
  for (const std::uint64_t available : {kGiB, 3 * kGiB, 500 * kGiB}) {
    const std::int64_t n = largest(available).num_classes;
    EXPECT_LE(need([&](JobConfig& job) { job.num_classes = n; }), available);
    EXPECT_GT(need([&](JobConfig& job) { job.num_classes = n + 1; }), available);
  }
}

TEST_F(MemoryAdvice, LargestBatchFitsAndOneMoreDoesNot) {
  for (const std::uint64_t available : {kGiB, 3 * kGiB, 500 * kGiB}) {
    const std::int64_t n = largest(available).batch_size;
    EXPECT_LE(need([&](JobConfig& job) { job.batch_size = n; }), available);
    EXPECT_GT(need([&](JobConfig& job) { job.batch_size = n + 1; }), available);
  }
}

TEST_F(MemoryAdvice, ReturnsTheLeastWorkersWithWhichTheJobFits) {
  const auto of_workers = [&](int workers) {
    PlannedJob other = planned_;
    other.world_size = workers;
    return plan_memory(other, plan_backbone(other), 0).total();
  };
  planned_.world_size = 8;
  EXPECT_EQ(least_workers(planned_, of_workers(5), false), 5);
  EXPECT_EQ(least_workers(planned_, of_workers(5) - 1, false), 6);
  EXPECT_EQ(least_workers(planned_, of_workers(1), false), 1);
  // On one host, 4 workers have twice as much memory each as 8 workers.
  EXPECT_LE(least_workers(planned_, of_workers(8), true), 4);
  planned_.gpu = true;
  EXPECT_EQ(least_workers(planned_, of_workers(8), true), 8) << "each GPU has its own memory";
}

TEST_F(MemoryAdvice, LeastWorkersGiveABatchNormTwoSamples) {
  planned_.job.batch_size = 1;
  planned_.job.sync_bn = true;
  planned_.world_size = 4;
  EXPECT_EQ(least_workers(planned_, 500 * kGiB, false), 2);
}

TEST_F(MemoryAdvice, LargestNumbersAreZeroIfNothingFits) {
  EXPECT_EQ(largest(1000).num_classes, 0);
  EXPECT_EQ(largest(1000).batch_size, 0);
}

TEST_F(MemoryAdvice, LargestNumbersStayWithinTheLimitsOfAJobFile) {
  EXPECT_EQ(largest(~std::uint64_t{0}).batch_size, 1 << 20);
  EXPECT_EQ(largest(~std::uint64_t{0}).num_classes, std::int64_t{1} << 40);
}

TEST_F(MemoryAdvice, LargestBatchNeedsNoMoreImagesThanThereAre) {
  planned_.world_size = 2;
  planned_.data.images = 400;
  EXPECT_EQ(largest(500 * kGiB).batch_size, 200);
  planned_.data.images = 2;
  EXPECT_EQ(largest(500 * kGiB).batch_size, 0) << "a batch norm needs two samples";
}

TEST_F(MemoryAdvice, SuggestsOnlyAsManyWorkersAsGetAFullBatch) {
  planned_.job.num_classes = 1'000'000;
  planned_.data.images = 2 * planned_.job.batch_size;
  const std::uint64_t available = 3 * kGiB + kGiB / 2;
  EXPECT_THAT(advice_for(available), HasSubstr("use 2 workers"));
  --planned_.data.images;
  EXPECT_THAT(advice_for(available), Not(HasSubstr(" workers")));
}

TEST_F(MemoryAdvice, ReportsNeedsAvailableMemoryLargestPartsAndAFittingBatch) {
  planned_.job.batch_size = 4096;
  const std::string text = advice_for(2 * kGiB);
  EXPECT_THAT(text, HasSubstr("but only 2.00 GiB are available (a test)"));
  EXPECT_THAT(text, HasSubstr("activations "));
  EXPECT_THAT(text, HasSubstr("set batch_size to " + std::to_string(largest(2 * kGiB).batch_size)));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(MemoryAdvice, SuggestsToRecomputeIfThatIsEnough) {
  planned_.job.num_classes = 1000;
  const std::uint64_t all = need([](JobConfig&) {});
  const std::uint64_t less = need([](JobConfig& job) { job.recompute = {"*"}; });
  ASSERT_LT(less, all);
  EXPECT_THAT(advice_for(less), HasSubstr("recompute to true"));
  EXPECT_THAT(advice_for(less - 1), Not(HasSubstr("recompute")));
  planned_.job.recompute = {"*"};
  EXPECT_THAT(advice_for(less - 1), Not(HasSubstr("recompute to true")));
}

TEST_F(MemoryAdvice, NamesOnlyChangesThatHelp) {
  planned_.job.num_classes = 1'000'000;  // 3.8 GiB
  const std::string text = advice_for(3 * kGiB + kGiB / 2);
  EXPECT_THAT(text, Not(HasSubstr("batch_size")));
  EXPECT_THAT(text, HasSubstr("set centre_precision to \"bf16_momentum\""));
  EXPECT_THAT(text, HasSubstr("use 2 workers, each with as much memory"));
  EXPECT_THAT(text, HasSubstr("class centres 1.91 GiB"));
  std::smatch classes;
  ASSERT_TRUE(std::regex_search(text, classes, std::regex("([0-9]+) classes would fit")));
  const std::int64_t n = std::stoll(classes[1]);
  EXPECT_LE(need([&](JobConfig& job) { job.num_classes = n; }), 3 * kGiB + kGiB / 2);
}

TEST_F(MemoryAdvice, SuggestsOneByteCentresIfTwoBytesAreTooMany) {
  const auto with = [&](CentrePrecision p) {
    return need([p](JobConfig& job) { job.centre_precision = p; });
  };
  planned_.job.num_classes = 1'000'000;
  const std::uint64_t least = with(CentrePrecision::kInt8);
  ASSERT_LT(least, with(CentrePrecision::kBf16));
  EXPECT_THAT(advice_for(least), HasSubstr("centre_precision to \"int8\""));
  EXPECT_THAT(advice_for(with(CentrePrecision::kBf16)), Not(HasSubstr("int8")));
  planned_.job.optimizer = OptimizerKind::kAdamW;
  EXPECT_THAT(advice_for(least), Not(HasSubstr("int8")));
}

TEST_F(MemoryAdvice, SuggestsASampleRateIfGradientsOfCentresAreSummed) {
  planned_.job.num_classes = 1'000'000;
  planned_.job.gradient_acc = 2;
  EXPECT_THAT(advice_for(5 * kGiB), HasSubstr("set sample_rate to 0.3"));
}

TEST_F(MemoryAdvice, ReportsThatNoSingleChangeHelps) {
  EXPECT_THAT(advice_for(1 << 20), HasSubstr("no single change makes it fit"));
}

TEST_F(MemoryAdvice, RejectsAJobThatDoesNotFit) {
  const MemoryPlan plan = expect_to_fit(planned_, {8 * kGiB, "a test"});
  EXPECT_EQ(plan.available, 8 * kGiB);
  const std::string refusal = message_of<InputError>([&] {
    expect_to_fit(planned_, {plan.total() - 1, "a test"});
  });
  EXPECT_THAT(refusal, HasSubstr("memory: a worker needs"));
}

TEST_F(MemoryAdvice, SuggestsDisablingSnapshots) {
  const std::uint64_t without = expect_to_fit(planned_, {8 * kGiB, "a test"}).total();
  planned_.job.replicate = true;
  EXPECT_THAT(message_of<InputError>([&] {
                expect_to_fit(planned_, {without, "a test"});
              }),
              HasSubstr("set replicate to false"));
}

TEST_F(MemoryAdvice, RejectsSnapshotsThatDoNotFitWithAGpu) {
  planned_.gpu = true;
  planned_.job.replicate = true;
  const MemoryThere gpu{80 * kGiB, "a test"};
  planned_.host_bytes = expect_to_fit(planned_, gpu).snapshots;
  expect_to_fit(planned_, gpu);
  --planned_.host_bytes;
  EXPECT_THAT(message_of<InputError>([&] { expect_to_fit(planned_, gpu); }),
              HasSubstr("of host memory"));
}

TEST_F(MemoryAdvice, OneLineDescribesThePlanAndHowCheckpointsAreWritten) {
  EXPECT_EQ(memory_message({.parts = {{"x", kGiB, ""}}, .available = 4 * kGiB}),
            "memory of a worker: 1.00 GiB planned of 4.00 GiB");
  EXPECT_THAT(
      memory_message({.checkpoint_copy = 2 * kGiB, .checkpoints_in_place = true}),
      HasSubstr("training waits while a checkpoint is written, because a copy of 2.00 GiB"));
}

TEST(MemoryOfThisHost, IsSharedByItsWorkers) {
  const auto one = static_cast<double>(memory_of_this_host(1).bytes);
  const auto four = static_cast<double>(memory_of_this_host(4).bytes);
  EXPECT_NEAR(four / one, 0.25, 0.1);  // not exact, because other programs start and end meanwhile
  EXPECT_THAT(memory_of_this_host(4).where, HasSubstr("1/4 of "));
}

TEST(MemoryOfThisHost, CountsMemoryThatWorkersHoldAsAvailable) {
  // The other worker keeps so much memory that changes caused by other programs do not matter.
  const std::uint64_t without = memory_of_this_host(2).bytes;
  const std::uint64_t with = memory_of_this_host(2, {.of_host = 4 * without, .mine = 0}).bytes;
  EXPECT_GT(with, 2 * without);
}

TEST(MemoryOfThisHost, CountsOnlyMemoryThatWorkersOfThisHostHold) {
  MemoryStore store;
  const auto kept = [&](int rank, const std::string& host, std::uint64_t bytes) {
    return kept_on_this_host(store, {.rank = rank, .world_size = 4}, host, bytes,
                             std::chrono::milliseconds(1));
  };
  kept(0, "a", 100);
  kept(1, "b", 1000);
  const KeptMemory on_a = kept(2, "a", 10);  // rank 3 never reports
  EXPECT_EQ(on_a.of_host, 110u);
  EXPECT_EQ(on_a.mine, 10u);
}

TEST(MemoryOfThisHost, IsLimitedByTheAddressSpace) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const ProcessMemory process = process_memory();
  const rlimit limited{.rlim_cur = process.address_space_bytes + kGiB + (kGiB >> 3),
                       .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limited), 0);
  const MemoryThere there = memory_of_this_host(1);
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_THAT(there.where, HasSubstr("ulimit -v"));
  EXPECT_LE(there.bytes, process.resident_bytes + (kGiB >> 3) + (kGiB >> 6));
}

}  // namespace
}  // namespace pfc
