// Tests the report on GPU health with a fake library (tests/support/drivers).

#include "worker/check/gpu_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kLibrary = PFC_FAKE_DRIVERS "/ill_gpu/libnvidia-ml.so.1";

TEST(GpuHealth, ReportsThatNvmlIsMissing) {
  const GpuHealthReport report = gpu_health({"0000:1B:00.0"}, "libnvidia-ml-that-is-nowhere.so.1");
  EXPECT_THAT(report.problem, HasSubstr("no NVML"));
  EXPECT_THAT(report.gpus, IsEmpty());
}

TEST(GpuHealth, QueriesOnlyTheNamedGpus) {
  const GpuHealthReport report = gpu_health({"0000:1C:00.0", "0000:99:00.0"}, kLibrary);
  EXPECT_EQ(report.problem, "");
  EXPECT_EQ(report.driver, "580.65.06");
  ASSERT_THAT(report.gpus, SizeIs(1));
  const GpuHealth& gpu = report.gpus.front();
  EXPECT_EQ(gpu.name, "GPU 0000:1C:00.0 (Fake GPU?)");
  EXPECT_EQ(gpu.memory_errors, 3U);
  EXPECT_EQ(gpu.free_bytes, 5U);
  EXPECT_EQ(gpu.total_bytes, 100U);
  EXPECT_EQ(gpu.clock_mhz, 600U);
  EXPECT_EQ(gpu.highest_clock_mhz, 1980U);
  EXPECT_EQ(gpu.throttled_by, "heat");
}

TEST(GpuHealth, DoesNotReportAnIdleGpuAsThrottled) {
  const GpuHealthReport report = gpu_health({"0000:1B:00.0"}, kLibrary);
  ASSERT_THAT(report.gpus, SizeIs(1));
  EXPECT_EQ(report.gpus.front().throttled_by, "");
  EXPECT_EQ(report.gpus.front().memory_errors, 0U);
  EXPECT_EQ(report.gpus.front().celsius, 0U);  // the library has no function for it
}

TEST(NcclVersion, IsTheVersionOfTheLibrary) {
  EXPECT_EQ(nccl_version(PFC_FAKE_DRIVERS "/two_gpus/libnccl.so.2"), "2.28.9");
  EXPECT_EQ(nccl_version("libnccl-that-is-nowhere.so.2"), "");
}

}  // namespace
}  // namespace pfc
