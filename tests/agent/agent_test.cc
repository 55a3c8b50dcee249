// An agent and a coordinator in this process; the workers are small shell scripts.
#include "agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "agent/join.h"
#include "common/machine/cores.h"
#include "tests/coordinator/running_coordinator.h"
#include "tests/support/relay.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::RunningCoordinator;
using testing::wait_until;

/// An agent on a thread with a loop of its own.
class RunningAgent {
 public:
  explicit RunningAgent(const AgentOptions& options)
      : thread_([this, options] {
          boost::asio::io_context loop;
          const auto work = boost::asio::make_work_guard(loop);
          std::string problem;
          Agent agent(loop, options, [&](const std::string& why) {
            problem = why;
            loop.stop();
          });
          runs_on(&loop, &agent);
          loop.run();
          runs_on(nullptr, nullptr);
          problem_.set_value(problem);
        }) {}
  /// Ends it: a coordinator that shuts down while the link is broken has not told it to.
  ~RunningAgent() {
    end_twice();
    thread_.join();
  }

  /// As two signals do.
  void end_twice() {
    post([](Agent& agent) {
      agent.end({});
      agent.kill_workers();
    });
  }

  /// As one signal does.
  void leave() {
    post([](Agent& agent) { agent.leave("SIGTERM"); });
  }

  /// Waits for its end.
  std::string problem() { return problem_.get_future().get(); }

 private:
  void runs_on(boost::asio::io_context* loop, Agent* agent) {
    const std::lock_guard lock(mutex_);
    loop_ = loop;
    agent_ = agent;
    made_ = true;
    changed_.notify_all();
  }
  /// Waits for the agent to be there; does nothing once it has ended.
  void post(const std::function<void(Agent&)>& work) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return made_; });
    if (loop_ != nullptr) boost::asio::post(*loop_, [work, agent = agent_] { work(*agent); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool made_ = false;                        // guarded by mutex_, as are the following
  boost::asio::io_context* loop_ = nullptr;  // null: it has ended
  Agent* agent_ = nullptr;
  std::promise<std::string> problem_;
  std::thread thread_;
};

class AgentOfAHost : public ::testing::Test {
 protected:
  AgentOptions options(const std::string& coordinator, const std::string& host = "a") {
    return {.coordinator = coordinator,
            .host = host,
            .worker_program = folder / "pfc-worker",
            .patience = 60s,
            .coordinator_grace = 60s,
            .grace = 100ms};
  }

  /// Workers will run this script.
  void workers_do(const std::string& script) {
    std::ofstream(folder / "pfc-worker") << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(folder / "pfc-worker", std::filesystem::perms::owner_all);
  }

  TemporaryFolder folder;
};

TEST_F(AgentOfAHost, StartsAWorkerForEachSlotWithItsShareOfTheCores) {
  unsetenv("OMP_NUM_THREADS");
  workers_do(
      "read -r pid comm state parent group rest < /proc/self/stat\n"
      "[ $group = $$ ] && group=own\n"
      "shift 6; echo $* OMP=$OMP_NUM_THREADS group=$group; exit 3");
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
        threads + " group=own\n";
    EXPECT_THAT(coordinator.output(), HasSubstr((slot == "0" ? "\n" : "\n[rank 1] ") + expected));
  }
}

TEST_F(AgentOfAHost, StartsEachWorkerOnCoresOfItsOwn) {
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

TEST_F(AgentOfAHost, LetsTheCoordinatorStopTheJobWhenItLeaves) {
  workers_do("trap 'exit 0' TERM; echo started; while :; do sleep 0.01; done");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address()));
  wait_until([&] {
    return coordinator.status().workers_size() == 1 && coordinator.status().workers(0).pid() != 0;
  });
  agent.leave();
  const Verdict verdict = coordinator.verdict();
  EXPECT_TRUE(verdict.host_left);
  EXPECT_EQ(verdict.message, "job stopped: host a is leaving (SIGTERM) before training began");
  coordinator.shut_down();
  EXPECT_THAT(coordinator.output(), HasSubstr("host a is leaving (SIGTERM): the workers write"));
  EXPECT_EQ(agent.problem(), "");
}

TEST_F(AgentOfAHost, EndsWithTheJobWhenItLeavesAndStartsNoWorkerOfTheNext) {
  workers_do("echo $4 >>\"${0%/*}/jobs\"; trap 'exit 0' TERM; while :; do sleep 0.01; done");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}}, testing::impatient(), 0, "");
  const auto stub = proto::CoordinatorService::NewStub(make_channel(coordinator.address()));
  for (int job = 0; job < 2; ++job) {
    grpc::ClientContext context;
    proto::SubmitRequest request;
    proto::SubmitReply reply;
    request.set_job_json(R"({"network":"r18","rec":"/data"})");
    EXPECT_TRUE(stub->Submit(&context, request, &reply).ok());
  }
  AgentOptions staying = options(coordinator.address());
  staying.stays = true;
  staying.leave_grace = 20s;
  RunningAgent agent(staying);
  const auto started = [&] { return std::filesystem::exists(folder / "jobs"); };
  wait_until([&] { return started() && coordinator.status().workers_size() == 1; });
  agent.leave();
  EXPECT_EQ(agent.problem(), "");
  std::ifstream jobs(folder / "jobs");
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(jobs), {}, '\n'), 1);
  EXPECT_EQ(coordinator.status().jobs_waiting(), 1);
}

TEST_F(AgentOfAHost, LeavesAtOnceWhereNoCoordinatorAnswers) {
  AgentOptions alone = options("127.0.0.1:1");
  alone.patience = 1h;
  RunningAgent agent(alone);
  agent.leave();
  EXPECT_EQ(agent.problem(), "");
}

TEST_F(AgentOfAHost, EndsItsWorkersWhenTheGracePeriodIsOver) {
  // A coordinator that leaves its workers more time than this host has.
  workers_do("trap '' TERM; while :; do sleep 0.01; done");
  RendezvousConfig patient = testing::impatient();
  patient.terminate = 1h;
  RunningCoordinator coordinator({{.name = "a", .slots = 1}}, patient);
  AgentOptions hurried = options(coordinator.address());
  hurried.leave_grace = 100ms;
  RunningAgent agent(hurried);
  wait_until([&] {
    return coordinator.status().workers_size() == 1 && coordinator.status().workers(0).pid() != 0;
  });
  agent.leave();
  EXPECT_EQ(agent.problem(), "");
}

TEST_F(AgentOfAHost, LetsThreadsThatWaitSleepSoonUnlessTheEnvironmentSaysOtherwise) {
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
  EXPECT_THAT(coordinator.output(), HasSubstr("host a: 2 workers (one a GPU)"));
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

TEST_F(AgentOfAHost, ReportsTheLastLineThatAWorkerWrote) {
  workers_do("echo fine; echo 'cannot allocate 4 GiB' >&2; kill -ABRT $$");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address()));
  EXPECT_THAT(
      coordinator.verdict().message,
      MatchesRegex("job failed: rank 0 \\(host a, slot 0, pid [0-9]+\\): killed by signal 6 "
                   "\\(SIGABRT\\): cannot allocate 4 GiB"));
  coordinator.shut_down();
}

TEST_F(AgentOfAHost, PassesOutputOnAsOneLineOfText) {
  workers_do(R"(printf 'caf\351 \303\251\033[2K\rjob completed\n'; exit 1)");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address()));
  coordinator.verdict();
  coordinator.shut_down();
  EXPECT_THAT(coordinator.output(), HasSubstr("caf? \303\251 [2K job completed\n"));
}

TEST_F(AgentOfAHost, NamesTheProgramThatIsMissing) {
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address()));
  const Verdict verdict = coordinator.verdict();
  EXPECT_TRUE(verdict.at_start);
  EXPECT_THAT(verdict.message,
              AllOf(HasSubstr((folder / "pfc-worker").string()), HasSubstr("cannot be started")));
  coordinator.shut_down();
}

TEST_F(AgentOfAHost, KillsAWorkerThatIgnoresSigtermAndItsChildren) {
  workers_do("trap '' TERM; sleep 1000 & echo $! > " + (folder / "child").string() +
             "; echo ready; wait; wait");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address()));
  wait_until([&] {
    return std::filesystem::exists(folder / "child") &&
           std::filesystem::file_size(folder / "child") > 0;
  });
  int child = 0;
  std::ifstream(folder / "child") >> child;
  coordinator.stop("SIGTERM", true);
  EXPECT_EQ(coordinator.verdict().kind, Verdict::Kind::kStopped);
  coordinator.shut_down();
  EXPECT_EQ(agent.problem(), "");
  // Killed at once; its new parent (init) may take a moment to collect it.
  wait_until([&] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string pid, name, state;
    return !(stat >> pid >> name >> state) || state == "Z";
  });
}

TEST_F(AgentOfAHost, KillsItsWorkersAtOnceOnASecondSignal) {
  workers_do("trap '' TERM; echo > " + (folder / "started").string() + "; sleep 1000");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  AgentOptions patient = options(coordinator.address());
  patient.grace = 1h;
  RunningAgent agent(patient);
  wait_until([&] { return std::filesystem::exists(folder / "started"); });
  agent.end_twice();
  EXPECT_EQ(agent.problem(), "");
}

TEST_F(AgentOfAHost, EndsWhenTheCoordinatorDoesNotKnowItsHost) {
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address(), "c"));
  EXPECT_THAT(agent.problem(), HasSubstr("host c"));
}

TEST_F(AgentOfAHost, EndsWhenItCannotReachTheCoordinator) {
  AgentOptions impatient = options("127.0.0.1:1");
  impatient.patience = 500ms;
  RunningAgent agent(impatient);
  EXPECT_THAT(agent.problem(), HasSubstr("coordinator 127.0.0.1:1 cannot be reached for"));
}

TEST_F(AgentOfAHost, EndsTheWorkersOfADeadCoordinatorAndStartsThoseOfTheNextOne) {
  workers_do("echo $4 $$ >> " + (folder / "jobs").string() + "; exec sleep 1000");
  const auto started = [&] {
    std::vector<std::pair<std::string, int>> jobs;
    std::ifstream stream(folder / "jobs");
    std::string job;
    for (int pid = 0; stream >> job >> pid;) jobs.emplace_back(job, pid);
    return jobs;
  };
  RunningCoordinator first({{.name = "a", .slots = 1}});
  // The relay stands for the address, which a dead coordinator leaves to the next one.
  testing::Relay address(first.port());
  AgentOptions patient = options("127.0.0.1:" + std::to_string(address.port()));
  patient.coordinator_grace = 10min;
  RunningAgent agent(patient);
  wait_until([&] { return started().size() == 1; });
  address.set(testing::Relay::Link::kCut);
  RendezvousConfig unhurried = testing::impatient();
  unhurried.limits.start = 10min;  // its worker never joins
  RunningCoordinator second({{.name = "a", .slots = 1}}, unhurried, 0, "second");
  address.lead_to(second.port());
  address.set(testing::Relay::Link::kWhole);
  wait_until([&] { return started().size() == 2; });
  EXPECT_EQ(started()[0].first, "0123456789abcdef");
  EXPECT_EQ(started()[1].first, "second");
  wait_until([&] { return kill(started()[0].second, 0) != 0; });
  EXPECT_EQ(second.status().state(), "starting") << second.status().reason();
  second.shut_down();
  EXPECT_EQ(agent.problem(), "");
}

/// A host whose agent reaches the coordinator over a link that a test cuts.
class LinkOfAnAgent : public AgentOfAHost, public ::testing::WithParamInterface<const char*> {
 protected:
  LinkOfAnAgent() { workers_do("sleep 1000"); }

  static RendezvousConfig config() {
    RendezvousConfig config = testing::impatient();
    config.limits = {.start = 10min, .silence = 20s, .leave = 20s};
    return config;
  }

  AgentOptions over_the_relay() {
    AgentOptions patient = options(std::string(GetParam()) + ":" + std::to_string(relay.port()));
    patient.coordinator_grace = 10min;
    return patient;
  }

  double silent_seconds() { return coordinator.status().hosts(0).silent_seconds(); }

  void is_cut_for(std::chrono::milliseconds time, testing::Relay::Link how) {
    wait_until([&] { return coordinator.status().workers_size() == 1; });
    relay.set(how);
    std::this_thread::sleep_for(time);  // how long the link is cut
    relay.set(testing::Relay::Link::kWhole);
    const auto back = std::chrono::steady_clock::now();
    wait_until([&] { return silent_seconds() < 1.5 || coordinator.status().state() == "failing"; });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - back;
    RecordProperty("seconds_until_it_was_back", std::to_string(took.count()));
  }

  RunningCoordinator coordinator{{{.name = "a", .slots = 1}}, config()};
  testing::Relay relay{coordinator.port()};
};

// The coordinator ends a job of a host that is silent for 20 s. That is long enough for a slow
// machine, and shorter than gRPC's own pauses before it looks a name up or connects again, which
// grow to minutes.
TEST_P(LinkOfAnAgent, ThatIsCutForThreeSecondsDoesNotEndTheJob) {
  RunningAgent agent(over_the_relay());
  is_cut_for(3s, testing::Relay::Link::kCut);
  EXPECT_EQ(coordinator.status().state(), "starting") << coordinator.status().reason();
  coordinator.shut_down();
}

TEST_P(LinkOfAnAgent, ThatIsSilentForThreeSecondsDoesNotEndTheJob) {
  RunningAgent agent(over_the_relay());
  is_cut_for(3s, testing::Relay::Link::kSilent);
  EXPECT_EQ(coordinator.status().state(), "starting") << coordinator.status().reason();
  coordinator.shut_down();
}

INSTANTIATE_TEST_SUITE_P(ByAddressAndName, LinkOfAnAgent,
                         ::testing::Values("127.0.0.1", "localhost"));

TEST_F(AgentOfAHost, NumbersRanksInTheOrderOfTheHosts) {
  workers_do("echo $0 $8; exit 1");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}, {.name = "b", .slots = 2}});
  RunningAgent b(options(coordinator.address(), "b"));
  RunningAgent a(options(coordinator.address(), "a"));
  EXPECT_THAT(coordinator.verdict().message, HasSubstr("exited with code 1"));
  coordinator.shut_down();
  EXPECT_THAT(coordinator.output(), HasSubstr("waiting for"));
}

TEST_F(AgentOfAHost, HandsItsWorkersACredentialThatIsInNoArgumentAndNoVariable) {
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

}  // namespace
}  // namespace pfc
