#include "worker/check/limits_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using Verdict = CheckFinding::Verdict;

CheckFinding finding(const std::string& what, const LimitsThere& there, LimitsNeeded needed = {}) {
  needed.world_size = 6;
  needed.workers_of_host = 2;
  for (const CheckFinding& each : limit_findings(there, needed)) {
    if (each.what == what) return each;
  }
  ADD_FAILURE() << "no finding about " << what;
  return {};
}

TEST(LimitsCheck, AcceptsAHostWithoutLimits) {
  for (const CheckFinding& each : limit_findings({}, {})) EXPECT_EQ(each.verdict, Verdict::kOk);
}

TEST(LimitsCheck, RequiresFilesForTheConnectionsToAllWorkers) {
  const CheckFinding low = finding("open files", {.open_files = 60});
  EXPECT_EQ(low.verdict, Verdict::kStops);
  EXPECT_THAT(low.remedy, HasSubstr("ulimit -Hn"));
  EXPECT_EQ(finding("open files", {.open_files = 1024}).verdict, Verdict::kOk);
}

TEST(LimitsCheck, RequiresThreadsForAllWorkersOfTheHost) {
  EXPECT_EQ(finding("processes and threads", {.processes = 70}).verdict, Verdict::kStops);
  EXPECT_EQ(finding("processes and threads", {.processes = 90}).verdict, Verdict::kOk);
}

TEST(LimitsCheck, RequiresLockedMemoryIfNcclUsesInfiniBand) {
  const LimitsThere there{.locked_memory = 8 << 20, .has_infiniband = true};
  EXPECT_EQ(finding("locked memory", there).verdict, Verdict::kOk);
  EXPECT_EQ(finding("locked memory", there, {.gpu = true}).verdict, Verdict::kStops);
  EXPECT_EQ(finding("locked memory", {.locked_memory = 8 << 20}, {.gpu = true}).verdict,
            Verdict::kOk);
}

TEST(LimitsCheck, RequiresSharedMemoryForTheGpusOfAHost) {
  const LimitsThere there{.shared_memory = 64 << 20};
  EXPECT_EQ(finding("shared memory", there).verdict, Verdict::kOk);
  const CheckFinding low = finding("shared memory", there, {.gpu = true});
  EXPECT_EQ(low.verdict, Verdict::kStops);
  EXPECT_EQ(low.found, "64.0 MiB free in /dev/shm");
  EXPECT_THAT(low.remedy, HasSubstr("--shm-size"));
}

TEST(LimitsCheck, ReadsTheLimitsOfAllParentGroups) {
  const TemporaryFolder root;
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  write("proc/self/cgroup", "0::/job/worker\n");
  write("sys/fs/cgroup/job/worker/pids.max", "max\n");
  write("sys/fs/cgroup/job/worker/pids.current", "7\n");
  write("sys/fs/cgroup/job/pids.max", "100\n");
  write("sys/fs/cgroup/job/pids.current", "30\n");
  write("sys/class/infiniband/mlx5_0/port", "");
  const LimitsThere there = limits_there(root.path());
  EXPECT_EQ(there.processes, 70U);
  EXPECT_TRUE(there.has_infiniband);
  EXPECT_FALSE(there.shared_memory.has_value());
}

}  // namespace
}  // namespace pfc
