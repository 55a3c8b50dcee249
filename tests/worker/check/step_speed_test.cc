#include "worker/check/step_speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/make_comm.h"
#include "kernels/make_ops.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

PlannedJob job_to_check() {
  return {.job = {.network = "mbf", .batch_size = 8, .num_classes = 1000}, .world_size = 2};
}

TEST(SpeedToExpect, IncludesComputationAndCollectives) {
  const CheckFinding f =
      speed_to_expect({.forward = 0.1, .backward = 0.2, .head = 0.05},
                      {.gradients = 0.1, .embeddings = 0.05}, job_to_check(), false);
  EXPECT_THAT(f.found, AllOf(HasSubstr("about 32 samples/s, 2 steps/s: 500 ms a step"),
                             HasSubstr("backbone 300, classification layer 50, collectives 150")));
  EXPECT_NEAR(f.value, 32, 1e-9);
  EXPECT_EQ(f.verdict, CheckFinding::Verdict::kOk);
}

TEST(SpeedToExpect, CountsOnlyTheReductionThatOutlastsTheBackwardPass) {
  EXPECT_THAT(
      speed_to_expect({.forward = 0.1, .backward = 0.2}, {.gradients = 0.15}, job_to_check(), true)
          .found,
      HasSubstr("collectives 0"));
  EXPECT_THAT(
      speed_to_expect({.forward = 0.1, .backward = 0.2}, {.gradients = 0.3}, job_to_check(), true)
          .found,
      HasSubstr("collectives 100"));
}

TEST(SpeedToExpect, CountsEveryMicroBatch) {
  PlannedJob planned = job_to_check();
  planned.job.gradient_acc = 3;
  // The compute times are for all micro-batches, but the time for embeddings is for one.
  EXPECT_THAT(speed_to_expect({.forward = 0.9}, {.embeddings = 0.1}, planned, false).found,
              HasSubstr("40 samples/s"));
}

TEST(TimeCompute, TimesAPartAndScalesItToTheWholeJob) {
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  const auto comm = make_host_comm({}, nullptr);
  PlannedJob planned = job_to_check();
  planned.world_size = 1;
  // time_compute() computes one micro-batch and few classes, and multiplies the times.
  planned.job.gradient_acc = 1000;
  planned.job.num_classes = 40'000'000;
  const ComputeSeconds seconds = time_compute(*ops, *comm, planned);
  EXPECT_GT(seconds.forward, 1);
  EXPECT_GT(seconds.backward, 1);
  EXPECT_GT(seconds.head, 100);
}

}  // namespace
}  // namespace pfc
