#include "agent/worker_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/machine/cores.h"

namespace pfc {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

class WorkerEnvironment : public ::testing::Test {
 protected:
  WorkerEnvironment() { clear(); }
  ~WorkerEnvironment() override { clear(); }
  static void clear() {
    for (const char* name : {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
      unsetenv(name);
    }
  }
};

TEST_F(WorkerEnvironment, HasThreadsAndAShortSpin) {
  EXPECT_THAT(worker_environment(2),
              ElementsAre(Pair("OMP_NUM_THREADS", std::to_string(threads_of_worker(2))),
                          Pair("GOMP_SPINCOUNT", "10000")));
}

TEST_F(WorkerEnvironment, LeavesAPersonsThreadsAsTheyAre) {
  setenv("OMP_NUM_THREADS", "7", 1);
  EXPECT_THAT(worker_environment(2), Contains(Pair("OMP_NUM_THREADS", "7")));
}

TEST_F(WorkerEnvironment, LeavesAPersonsWaitPolicyAsItIs) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    setenv(name, "active", 1);
    EXPECT_THAT(worker_environment(2), Not(Contains(Key("GOMP_SPINCOUNT"))));
    EXPECT_THAT(worker_environment(2), Not(Contains(Key("OMP_WAIT_POLICY"))));
    clear();
  }
}

}  // namespace
}  // namespace pfc
