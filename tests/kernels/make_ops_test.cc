// Tests which device a job gets, and how the devices and libraries of this machine are described.

#include "kernels/make_ops.h"

#include <gmock/gmock.h>

#include "common/error.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

TEST(MakeOps, GivesTheCpuTheRequestedNumberOfThreads) {
  const std::unique_ptr<Ops> ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 3});
  EXPECT_TRUE(ops->on_host());
  EXPECT_THAT(ops->description(),
              ::testing::MatchesRegex("CPU \\(oneDNN 2\\..*, 3 threads, .*\\)"));
}

TEST(MakeOps, DescribesTheCpu) {
  EXPECT_EQ(cpu_device().kind, "CPU");
  EXPECT_TRUE(cpu_device().available);
  EXPECT_THAT(cpu_device().detail, ::testing::HasSubstr("usable core"));
}

TEST(MakeOps, ChoosesAnAvailableDevice) {
  const bool has_gpu = cuda_devices()[0].available;
  EXPECT_EQ(make_ops({.choice = DeviceChoice::kAuto})->on_host(), !has_gpu);
  if (has_gpu) return;
  EXPECT_THAT(testing::message_of<InputError>([] { make_ops({.choice = DeviceChoice::kCuda}); }),
              ::testing::StartsWith("device: found \"cuda\", but "));
}

TEST(MakeOps, NamesTheLibrariesOfTheKernels) {
  ASSERT_FALSE(kernel_libraries().empty());
  EXPECT_EQ(kernel_libraries()[0].name, "oneDNN");
  EXPECT_THAT(kernel_libraries()[0].version, ::testing::StartsWith("2."));
}

}  // namespace
}  // namespace pfc
