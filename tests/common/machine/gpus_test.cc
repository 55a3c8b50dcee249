// Tests the GPU search with fake drivers (tests/support/drivers).

#include "common/machine/gpu/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

GpuSearch search_with(const std::string& driver) {
  return find_gpus(PFC_FAKE_DRIVERS "/" + driver + "/libcuda.so.1");
}

/// Returns the problem, and expects that there are no GPUs.
std::string problem_with(const std::string& driver) {
  const GpuSearch search = search_with(driver);
  EXPECT_THAT(search.gpus, IsEmpty());
  EXPECT_EQ(search.problem.find('\n'), std::string::npos);
  return search.problem;
}

class Gpus : public ::testing::Test {
 protected:
  Gpus() { unsetenv("CUDA_VISIBLE_DEVICES"); }
  ~Gpus() override { unsetenv("CUDA_VISIBLE_DEVICES"); }
};

TEST_F(Gpus, AreNumberedAsByTheDriver) {
  const GpuSearch search = search_with("two_gpus");
  EXPECT_EQ(search.problem, "");
  ASSERT_THAT(search.gpus, SizeIs(2));
  for (int i = 0; i < 2; ++i) {
    const Gpu& gpu = search.gpus[static_cast<std::size_t>(i)];
    EXPECT_EQ(gpu.index, i);
    EXPECT_EQ(gpu.memory_bytes, (i + 1ULL) << 34);
    EXPECT_EQ(gpu.capability_major, 9);
    EXPECT_EQ(gpu.capability_minor, 1);
    EXPECT_EQ(gpu.sizes.l2_bytes, 50 << 20);
    EXPECT_EQ(gpu.sizes.multiprocessors, 132);
    EXPECT_EQ(gpu.sizes.memory_bandwidth, 3'352'320'000'000);
    EXPECT_EQ(gpu.pci_bus_id, i == 0 ? "0000:1B:00.0" : "0000:1C:00.0");
  }
}

TEST_F(Gpus, AreDescribedInPrintableText) {
  const GpuSearch search = search_with("two_gpus");
  ASSERT_THAT(search.gpus, SizeIs(2));
  EXPECT_EQ(describe(search.gpus[1]), "cuda:1 Fake GPU B? (32.0 GiB)");
}

TEST_F(Gpus, MissingDriverErrorNamesTheDriverToInstall) {
  const GpuSearch search = find_gpus("libcuda-that-is-nowhere.so.1");
  EXPECT_THAT(search.gpus, IsEmpty());
  EXPECT_THAT(search.problem, StartsWith("no CUDA driver (libcuda-that-is-nowhere.so.1: cannot"));
  EXPECT_THAT(search.problem, HasSubstr("install NVIDIA's driver R580 or newer"));
}

TEST_F(Gpus, FileThatIsNotALibraryIsNotADriver) {
  const TemporaryFolder folder;
  std::ofstream(folder / "libcuda.so.1") << "nothing";
  EXPECT_THAT(find_gpus((folder / "libcuda.so.1").string()).problem,
              StartsWith("no CUDA driver (" + folder.path().string()));
}

TEST_F(Gpus, LibraryWithoutDriverFunctionsIsNotADriver) {
  EXPECT_THAT(find_gpus("libm.so.6").problem,
              StartsWith("no CUDA driver (the library lacks cuDriverGetVersion)"));
}

TEST_F(Gpus, OldDriverIsReportedWithItsVersionAndTheRequiredVersion) {
  EXPECT_EQ(problem_with("too_old"),
            "the CUDA driver is too old: found CUDA 12.8, expected 13.0 or newer: install NVIDIA's "
            "driver R580 or newer");
}

TEST_F(Gpus, DriverWithoutDevicesMeansNoGpu) {
  EXPECT_EQ(problem_with("no_device"), "no GPU: the CUDA 13.1 driver found none");
  EXPECT_EQ(problem_with("none_visible"), "no GPU: the CUDA 13.0 driver found none");
}

TEST_F(Gpus, CudaVisibleDevicesIsReportedIfItMayHideAllGpus) {
  setenv("CUDA_VISIBLE_DEVICES", "7,\n8", 1);
  EXPECT_EQ(problem_with("none_visible"),
            "no GPU: the CUDA 13.0 driver found none; CUDA_VISIBLE_DEVICES is \"7,?8\": unset it, "
            "or list GPUs of this machine");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_THAT(problem_with("no_device"), HasSubstr("CUDA_VISIBLE_DEVICES is \"\":"));
}

TEST_F(Gpus, FailingDriverIsReportedWithTheCallAndItsError) {
  EXPECT_THAT(
      problem_with("not_ready"),
      StartsWith("the CUDA driver failed: cuInit returned CUDA_ERROR_SYSTEM_NOT_READY (802); "));
}

TEST_F(Gpus, UnnamedErrorIsReportedByItsNumber) {
  EXPECT_THAT(problem_with("newer_error"), HasSubstr("cuInit returned error (9999); "));
}

TEST_F(Gpus, InvalidCountIsADriverFailure) {
  EXPECT_EQ(problem_with("miscounting"), "the CUDA driver failed: it reported -7 GPUs");
}

}  // namespace
}  // namespace pfc
