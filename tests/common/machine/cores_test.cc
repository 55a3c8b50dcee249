#include "common/machine/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>

namespace pfc {
namespace {

TEST(Cores, AreNoMoreThanTheAffinityHas) {
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

TEST(Cores, AreSharedByTheWorkersUnlessAPersonSaysOtherwise) {
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(threads_of_worker(1), usable_cores());
  EXPECT_EQ(threads_of_worker(1'000'000), 1);
  EXPECT_EQ(threads_of_worker(0), usable_cores());
  setenv("OMP_NUM_THREADS", "7", 1);
  EXPECT_EQ(threads_of_worker(1), 7);
  EXPECT_EQ(threads_of_worker(4), 7);
  EXPECT_EQ(threads_of_worker(4, 1), 7);
  setenv("OMP_NUM_THREADS", "a few", 1);
  EXPECT_EQ(threads_of_worker(1), usable_cores());
  unsetenv("OMP_NUM_THREADS");
}

TEST(Cores, OfABoundWorkerAreItsOwn) {
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(threads_of_worker(1, 1), 1);
}

}  // namespace
}  // namespace pfc
