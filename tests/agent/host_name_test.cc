#include "agent/host_name.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace pfc {
namespace {

constexpr std::array kVariables{"SLURMD_NODENAME", "PFC_KUBERNETES_JOB", "JOB_COMPLETION_INDEX",
                                "PMIX_HOSTNAME"};

class ScheduledHostName : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kVariables) unsetenv(name);
  }
  void TearDown() override { SetUp(); }
};

TEST_F(ScheduledHostName, IsTheNodeNameOfSlurm) {
  setenv("SLURMD_NODENAME", "n01", 1);
  setenv("PMIX_HOSTNAME", "other", 1);
  EXPECT_EQ(scheduled_host_name(), "n01");
}

TEST_F(ScheduledHostName, IsTheHostNameOfMpirun) {
  setenv("PMIX_HOSTNAME", "n02", 1);
  EXPECT_EQ(scheduled_host_name(), "n02");
}

TEST_F(ScheduledHostName, IsThePodNameInAnIndexedJob) {
  setenv("PFC_KUBERNETES_JOB", "agents", 1);
  setenv("JOB_COMPLETION_INDEX", "3", 1);
  EXPECT_EQ(scheduled_host_name(), "agents-3");
}

TEST_F(ScheduledHostName, IsTheHostsOwnNameWithoutAScheduler) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  setenv("PFC_KUBERNETES_JOB", "agents", 1);  // not enough without JOB_COMPLETION_INDEX
  EXPECT_EQ(scheduled_host_name(), name.data());
}

}  // namespace
}  // namespace pfc
