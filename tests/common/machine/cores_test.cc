#include "common/machine/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <fstream>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;

TEST(Cores, AreLimitedByTheAffinity) {
  cpu_set_t before, first;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), CPU_COUNT(&before));
  CPU_ZERO(&first);
  for (int core = 0; CPU_COUNT(&first) == 0; ++core) {
    if (CPU_ISSET(core, &before)) CPU_SET(core, &first);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(first), &first), 0);
  EXPECT_EQ(usable_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(Cores, AreDividedAmongTheWorkersUnlessOmpNumThreadsIsSet) {
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(threads_of_worker(1), usable_cores());
  EXPECT_EQ(threads_of_worker(1'000'000), 1);
  EXPECT_EQ(threads_of_worker(0), usable_cores());
  EXPECT_FALSE(threads_are_chosen());
  setenv("OMP_NUM_THREADS", "7", 1);
  EXPECT_TRUE(threads_are_chosen());
  setenv(kShareOfCores, "1", 1);
  EXPECT_FALSE(threads_are_chosen()) << "the agent set the number, not the user";
  unsetenv(kShareOfCores);
  EXPECT_EQ(threads_of_worker(1), 7);
  EXPECT_EQ(threads_of_worker(4), 7);
  EXPECT_EQ(threads_of_worker(4, 1), 7);
  setenv("OMP_NUM_THREADS", "5,2", 1);
  EXPECT_EQ(threads_of_worker(1), 5);
  EXPECT_EQ(threads_asked_for(), 5);
  setenv("OMP_NUM_THREADS", "", 1);
  EXPECT_EQ(threads_of_worker(1), usable_cores());
  unsetenv("OMP_NUM_THREADS");
}

TEST(Cores, RejectsInvalidOmpNumThreads) {
  for (const char* value : {"a few", "0", "-1", "7x", "100000", "99999999999999999999"}) {
    setenv("OMP_NUM_THREADS", value, 1);
    EXPECT_THAT(testing::message_of<InputError>([] { threads_asked_for(); }),
                HasSubstr(std::string("OMP_NUM_THREADS=") + value + ": expected 1 to "));
  }
  unsetenv("OMP_NUM_THREADS");
}

TEST(Cores, WarnsOfMoreThreadsThanCores) {
  EXPECT_EQ(oversubscription(64, 2, 2),
            "OMP_NUM_THREADS=64: 2 workers would run 128 threads on 2 cores, which slows them "
            "down; unset it on this host");
  EXPECT_EQ(oversubscription(4, 2, 8), "");
  EXPECT_EQ(oversubscription(1, 3, 2), "") << "more workers than cores is a deliberate choice";
  EXPECT_NE(oversubscription(2'147'483'647, 2'147'483'647, 2), "");
  EXPECT_EQ(oversubscription(0, 16, 8), "") << "the number of threads is not set";
}

class CpuQuota : public ::testing::Test {
 protected:
  void file(const std::string& path, const std::string& text) {
    const auto place = host_.path() / path;
    std::filesystem::create_directories(place.parent_path());
    std::ofstream(place) << text;
  }
  [[nodiscard]] int cores() const { return quota_cores(host_.path()); }

 private:
  const TemporaryFolder host_;
};

TEST_F(CpuQuota, IsTheSmallestOfAllParentControlGroups) {
  file("proc/self/cgroup", "0::/job/worker\n");
  EXPECT_EQ(cores(), 0);
  file("sys/fs/cgroup/job/worker/cpu.max", "max 100000\n");
  EXPECT_EQ(cores(), 0);
  file("sys/fs/cgroup/job/cpu.max", "600000 100000\n");
  EXPECT_EQ(cores(), 6);
  file("sys/fs/cgroup/job/worker/cpu.max", "250000 100000\n");
  EXPECT_EQ(cores(), 2);
  file("sys/fs/cgroup/cpu.max", "10000 100000\n");
  EXPECT_EQ(cores(), 1) << "a fraction of a core counts as one";
}

TEST_F(CpuQuota, ReadsCgroupVersion1) {
  file("proc/self/cgroup", "3:memory:/x\n5:cpu,cpuacct:/job\n");
  file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), 0);
  file("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "400000\n");
  file("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), 4);
}

TEST(Cores, BoundWorkerUsesItsOwnCores) {
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(threads_of_worker(1, 1), 1);
}

}  // namespace
}  // namespace pfc
