// Tests how an agent starts workers and reports on them. The coordinator runs in this process too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "agent/join.h"
#include "common/machine/cores.h"
#include "tests/agent/agent_fixture.h"
#include "tests/coordinator/running_coordinator.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using testing::AgentOfAHost;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::RunningAgent;
using testing::RunningCoordinator;

TEST_F(AgentOfAHost, StartsAWorkerForEachSlotWithItsShareOfTheCores) {
  unsetenv("OMP_NUM_THREADS");
  workers_do(
      "read -r pid comm state parent group rest < /proc/self/stat\n"
      "[ $group = $$ ] && group=own\n"
      "shift 6; echo $* OMP=$OMP_NUM_THREADS by agent $PFC_SHARE_OF_CORES group=$group; exit 3");
  RunningCoordinator coordinator({{.name = "a", .slots = 2}});
  RunningAgent agent(options(coordinator.address()));
  EXPECT_THAT(coordinator.verdict().message, HasSubstr("exited with code 3"));
  coordinator.shut_down();
  EXPECT_EQ(agent.problem(), "");
  const std::string threads = std::to_string(threads_of_worker(2));
  for (const std::string slot : {"0", "1"}) {
    const std::string expected =
        "--slot " + slot +
        " --incarnation 1 --join-timeout 130 --collective-timeout 300 --coordinator-grace 60 OMP=" +
        threads + " by agent 1 group=own\n";
    EXPECT_THAT(coordinator.output(), HasSubstr((slot == "0" ? "\n" : "\n[rank 1] ") + expected));
  }
}

TEST_F(AgentOfAHost, BindsEachWorkerToItsOwnCores) {
  const std::vector<std::vector<int>> cores = Topology::here().cores();
  if (cores.size() < 2) GTEST_SKIP() << "this machine has one core";
  workers_do("sed -n 's/^Cpus_allowed_list:\\s*/may use /p' /proc/self/status; exit 3");
  RunningCoordinator coordinator({{.name = "a", .slots = static_cast<int>(cores.size())}});
  AgentOptions bound = options(coordinator.address());
  bound.bind = BindMode::kCores;
  RunningAgent agent(bound);
  coordinator.verdict();
  coordinator.shut_down();
  EXPECT_EQ(agent.problem(), "");
  for (const std::vector<int>& core : cores) {
    EXPECT_THAT(coordinator.output(), HasSubstr("may use " + std::to_string(core.front())));
  }
}

TEST_F(AgentOfAHost, SetsGompSpincountUnlessTheEnvironmentSetsAWaitPolicy) {
  workers_do("echo spin=$GOMP_SPINCOUNT policy=$OMP_WAIT_POLICY; exit 3");
  const auto started_with = [&](const char* spin_count, const char* policy) {
    for (const auto& [name, value] :
         {std::pair("GOMP_SPINCOUNT", spin_count), std::pair("OMP_WAIT_POLICY", policy)}) {
      unsetenv(name);
      if (value != nullptr) setenv(name, value, 1);
    }
    RunningCoordinator coordinator({{.name = "a", .slots = 1}});
    RunningAgent agent(options(coordinator.address()));
    coordinator.verdict();
    coordinator.shut_down();
    EXPECT_EQ(agent.problem(), "");
    return coordinator.output();
  };
  EXPECT_THAT(started_with(nullptr, nullptr), HasSubstr("spin=1000 policy=\n"));
  EXPECT_THAT(started_with("7", nullptr), HasSubstr("spin=7 policy=\n"));
  EXPECT_THAT(started_with(nullptr, "active"), HasSubstr("spin= policy=active\n"));
  unsetenv("OMP_WAIT_POLICY");
}

TEST_F(AgentOfAHost, NumbersRanksInTheOrderOfTheHosts) {
  workers_do("echo $0 $8; exit 1");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}, {.name = "b", .slots = 2}});
  RunningAgent b(options(coordinator.address(), "b"));
  RunningAgent a(options(coordinator.address(), "a"));
  EXPECT_THAT(coordinator.verdict().message, HasSubstr("exited with code 1"));
  coordinator.shut_down();
  EXPECT_THAT(coordinator.output(), HasSubstr("waiting for"));
}

TEST_F(AgentOfAHost, PassesTheCredentialToWorkersByStdinOnly) {
  workers_do(
      "read -r first; echo $first of $(tr -d '\\0' < /proc/$$/environ | grep -c PRIVATE) of $*; "
      "exit 3");
  Gate gate({.state_dir = folder / "state"});
  RunningCoordinator coordinator({{.name = "a", .slots = 1}}, testing::impatient(), 0,
                                 "0123456789abcdef", &gate);
  const JoinString join =
      parse_join_string(gate.make_join_string(coordinator.address()), "the gate");
  const JoinedCluster joined = join_cluster(join, "a", folder / "agent", 5s);
  AgentOptions with_credential = options(coordinator.address());
  with_credential.credential = joined.credential;
  RunningAgent agent(with_credential);
  EXPECT_THAT(coordinator.verdict().message, HasSubstr("exited with code 3"));
  coordinator.shut_down();
  EXPECT_EQ(agent.problem(), "");
  EXPECT_THAT(coordinator.output(), AllOf(HasSubstr("-----BEGIN PRIVATE KEY----- of 0 of "),
                                          HasSubstr("--credential -\n")));
}

TEST_F(AgentOfAHost, ReportsItsGpusAndStartsAWorkerForEach) {
  workers_do("exit 3");
  AgentOptions with_gpus = options("");
  with_gpus.gpus.gpus = {{.index = 0, .name = "Fake A", .memory_bytes = 80ULL << 30},
                         {.index = 1, .name = "Fake B", .memory_bytes = 40ULL << 30}};
  RunningCoordinator coordinator({{.name = "a"}});
  with_gpus.coordinator = coordinator.address();
  RunningAgent agent(with_gpus);
  coordinator.verdict();
  const proto::HostStatus host = coordinator.status().hosts(0);
  coordinator.shut_down();
  EXPECT_THAT(host.devices(), ElementsAre(HasSubstr("cpu ("), "cuda:0 Fake A (80.0 GiB)",
                                          "cuda:1 Fake B (40.0 GiB)"));
  EXPECT_EQ(host.slots(), 2);
  EXPECT_THAT(coordinator.output(), HasSubstr("host a: 2 workers (one per GPU)"));
}

TEST_F(AgentOfAHost, ReportsWhyItHasNoGpu) {
  workers_do("exit 3");
  AgentOptions without_gpus = options("");
  without_gpus.gpus.problem = "no CUDA driver: install one";
  RunningCoordinator coordinator({{.name = "a"}});
  without_gpus.coordinator = coordinator.address();
  RunningAgent agent(without_gpus);
  coordinator.verdict();
  coordinator.shut_down();
  EXPECT_THAT(coordinator.output(), HasSubstr("host a: 1 worker (no CUDA driver: install one)"));
}

TEST_F(AgentOfAHost, NamesAMissingWorkerProgram) {
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address()));
  const Verdict verdict = coordinator.verdict();
  EXPECT_TRUE(verdict.at_start);
  EXPECT_THAT(verdict.message,
              AllOf(HasSubstr((folder / "pfc-worker").string()), HasSubstr("cannot be started")));
  coordinator.shut_down();
}

TEST_F(AgentOfAHost, ReportsTheLastLineOfAWorkersStderr) {
  workers_do("echo fine; echo 'cannot allocate 4 GiB' >&2; kill -ABRT $$");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address()));
  EXPECT_THAT(
      coordinator.verdict().message,
      MatchesRegex("job failed: rank 0 \\(host a, slot 0, pid [0-9]+\\): killed by signal 6 "
                   "\\(SIGABRT\\): cannot allocate 4 GiB"));
  coordinator.shut_down();
}

TEST_F(AgentOfAHost, ForwardsALineOfOutputWithoutControlCharacters) {
  workers_do(R"(printf 'caf\351 \303\251\033[2K\rjob completed\n'; exit 1)");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address()));
  coordinator.verdict();
  coordinator.shut_down();
  EXPECT_THAT(coordinator.output(), HasSubstr("caf? \303\251 [2K job completed\n"));
}

}  // namespace
}  // namespace pfc
