// Tests the choice of device, and the descriptions of this machine's devices and libraries.

#include "kernels/make_ops.h"

#include <gmock/gmock.h>

#include "common/error.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

TEST(MakeOps, UsesTheRequestedNumberOfCpuThreads) {
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

TEST(MakeOps, UsesBf16OnACpuWithInstructionsForIt) {
  const DeviceOptions bf16{.choice = DeviceChoice::kCpu, .precision = Precision::kBf16};
  if (cpu_has_bfloat16()) {
    EXPECT_EQ(make_ops(bf16)->activation_type(), DType::kBFloat16);
  } else {
    EXPECT_THAT(
        testing::message_of<InputError>([&] { make_ops(bf16); }),
        ::testing::StartsWith("precision: found bf16, but this CPU lacks the instructions"));
  }
}

TEST(Precisions, AreSupportedByInstructionsOfTheDevice) {
  using enum Precision;
  using All = std::vector<Precision>;
  EXPECT_EQ(precisions_of_cpu(true), (All{kBf16, kFp32}));
  EXPECT_EQ(precisions_of_cpu(false), (All{kFp32}));
  EXPECT_EQ(precisions_of_gpu(90), (All{kBf16, kFp16, kFp32}));
  EXPECT_EQ(precisions_of_gpu(75), (All{kFp16, kFp32}));
  EXPECT_EQ(precisions_of_gpu(61), (All{kFp32}));
  EXPECT_EQ(precisions_of(DeviceChoice::kCpu, 0), precisions_of_cpu(cpu_has_bfloat16()));
}

TEST(Precisions, FastestIsChosenAmongThoseThatAllDevicesSupport) {
  using All = std::vector<std::vector<Precision>>;
  EXPECT_EQ(fastest_of_all(All{precisions_of_cpu(true), precisions_of_cpu(true)}),
            Precision::kBf16);
  EXPECT_EQ(fastest_of_all(All{precisions_of_cpu(true), precisions_of_cpu(false)}),
            Precision::kFp32);
  EXPECT_EQ(fastest_of_all(All{precisions_of_gpu(90), precisions_of_gpu(70)}), Precision::kFp16);
  EXPECT_EQ(fastest_of_all(All{}), Precision::kFp32);
}

TEST(MakeOps, NamesTheLibrariesOfTheKernels) {
  ASSERT_FALSE(kernel_libraries().empty());
  EXPECT_EQ(kernel_libraries()[0].name, "oneDNN");
  EXPECT_THAT(kernel_libraries()[0].version, ::testing::StartsWith("2."));
}

}  // namespace
}  // namespace pfc
