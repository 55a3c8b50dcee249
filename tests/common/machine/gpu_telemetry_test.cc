#include "common/machine/gpu/gpu_telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using ::testing::HasSubstr;

constexpr const char* kLibrary = PFC_FAKE_DRIVERS "/two_gpus/libnvidia-ml.so.1";

TEST(GpuTelemetry, ReadsWhatTheGpuReports) {
  const GpuTelemetry gpu("0000:1B:00.0", kLibrary);
  EXPECT_EQ(gpu.problem(), "");
  const GpuReading reading = gpu.read();
  EXPECT_EQ(reading.utilisation, 0.87);
  EXPECT_EQ(reading.memory_used, 60'000'000'000);
  EXPECT_EQ(reading.memory_total, 85'000'000'000);
  EXPECT_EQ(reading.temperature_celsius, 64);
  EXPECT_EQ(reading.power_watts, std::nullopt);
  EXPECT_EQ(reading.throttled, true);
}

TEST(GpuTelemetry, ReportsWhyTheGpuCannotBeRead) {
  const GpuTelemetry other("0000:2C:00.0", kLibrary);
  EXPECT_EQ(other.problem(), "NVML did not find the GPU 0000:2C:00.0 (error 6)");
  EXPECT_EQ(other.read().memory_used, std::nullopt);
  const GpuTelemetry none("0000:1B:00.0", "libnot-there.so.1");
  EXPECT_THAT(none.problem(), HasSubstr("no NVML (libnot-there.so.1"));
  EXPECT_EQ(none.read().utilisation, std::nullopt);
}

}  // namespace
}  // namespace pfc
