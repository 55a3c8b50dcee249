#include "common/machine/host_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

/// A host with our own files in /proc and /sys.
class HostMemoryTest : public ::testing::Test {
 protected:
  void file(const std::string& path, const std::string& text) {
    const auto place = host_.path() / path;
    std::filesystem::create_directories(place.parent_path());
    std::ofstream(place) << text;
  }
  void host_has_kib(int available) {
    file("proc/meminfo", "MemTotal:       1000000 kB\nMemFree:          1000 kB\nMemAvailable:   " +
                             std::to_string(available) + " kB\nBuffers:  5 kB\n");
  }
  [[nodiscard]] HostMemory look() const { return host_memory(host_.path()); }

 private:
  const TemporaryFolder host_;
};

TEST_F(HostMemoryTest, EqualsMemAvailableWithoutGroupLimit) {
  host_has_kib(500);
  file("proc/self/cgroup", "0::/user.slice\n");
  file("sys/fs/cgroup/user.slice/memory.max", "max\n");
  file("sys/fs/cgroup/user.slice/memory.current", "4096\n");
  EXPECT_EQ(look().available_bytes, 500u * 1024);
  EXPECT_EQ(look().limit, "MemAvailable of /proc/meminfo");
}

TEST_F(HostMemoryTest, CountsTheRestOfAGroupsLimitAndItsPageCache) {
  host_has_kib(500);
  file("proc/self/cgroup", "0::/job/worker\n");
  file("sys/fs/cgroup/job/worker/memory.max", "100000\n");
  file("sys/fs/cgroup/job/worker/memory.current", "60000\n");
  file("sys/fs/cgroup/job/worker/memory.stat",
       "anon 30000\nfile 30000\ninactive_file 20000\nactive_file 9000\n");
  EXPECT_EQ(look().available_bytes, 100000u - 60000u + 29000u);
  EXPECT_EQ(look().limit, "memory.max of /sys/fs/cgroup/job/worker");
}

TEST_F(HostMemoryTest, IsLimitedByEnclosingGroupsToo) {
  host_has_kib(500);
  file("proc/self/cgroup", "0::/job/worker\n");
  file("sys/fs/cgroup/job/worker/memory.max", "100000\n");
  file("sys/fs/cgroup/job/worker/memory.current", "1000\n");
  file("sys/fs/cgroup/job/memory.max", "50000\n");
  file("sys/fs/cgroup/job/memory.current", "45000\n");
  EXPECT_EQ(look().available_bytes, 5000u);
  EXPECT_EQ(look().limit, "memory.max of /sys/fs/cgroup/job");
}

TEST_F(HostMemoryTest, ReadsTheLimitOfAContainerAtTheRootOfItsMount) {
  host_has_kib(500);
  file("proc/self/cgroup", "0::/docker/0123abcd\n");  // this name is only valid on the host
  file("sys/fs/cgroup/memory.max", "70000\n");
  file("sys/fs/cgroup/memory.current", "10000\n");
  EXPECT_EQ(look().available_bytes, 60000u);
}

TEST_F(HostMemoryTest, ReadsGroupsOfVersion1Too) {
  host_has_kib(500);
  file("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job\n");
  file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "90000\n");
  file("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "50000\n");
  file("sys/fs/cgroup/memory/job/memory.stat", "cache 20000\ntotal_inactive_file 20000\n");
  EXPECT_EQ(look().available_bytes, 60000u);
}

TEST_F(HostMemoryTest, IsZeroInAGroupThatIsOverItsLimit) {
  host_has_kib(500);
  file("proc/self/cgroup", "0::/job\n");
  file("sys/fs/cgroup/job/memory.max", "1000\n");
  file("sys/fs/cgroup/job/memory.current", "2000\n");
  EXPECT_EQ(look().available_bytes, 0u);
}

TEST_F(HostMemoryTest, IsUnlimitedIfNoLimitCanBeRead) {
  EXPECT_EQ(look().available_bytes, std::numeric_limits<std::uint64_t>::max());
}

TEST(HostMemoryOfThisHost, IsMoreThanThisTestUses) {
  EXPECT_GT(host_memory().available_bytes, std::uint64_t{1} << 20);
}

}  // namespace
}  // namespace pfc
