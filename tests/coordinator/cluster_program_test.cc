// Tests the programs pfc-coordinator and pfc-agent with a fake worker: exit codes, the final line,
// and that no process is left behind.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/coordinator_file.h"
#include "common/machine/cores.h"
#include "common/process/child_process.h"
#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"
#include "security/credential.h"
#include "tests/coordinator/cluster_fixture.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::Cluster;
using ::testing::ContainsRegex;
using testing::contents;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

TEST_F(Cluster, ExitsWithZeroWhenAllRanksComplete) {
  const Ran ran = runs("complete");
  EXPECT_EQ(ran.exit, ProcessExit{}) << ran.err;
  EXPECT_EQ(ran.last_line(), "pfc-coordinator: job completed");
  EXPECT_THAT(ran.out, AllOf(::testing::ContainsRegex("(^|\n)world size 2"),
                             HasSubstr("[rank 1] world size 2")));
  EXPECT_THAT(processes_left(), IsEmpty());
  EXPECT_TRUE(fs::is_empty(folder / "state" / "journals"));
  for (const char* kept : {"journals", "security", "audit.jsonl"}) {
    fs::remove_all(folder / "state" / kept);
  }
  EXPECT_TRUE(fs::is_empty(folder / "state")) << "only these may be left for the next coordinator";
}

TEST_F(Cluster, TrainsOnThisMachineWithoutHostsAndExplainsTheNumberOfWorkers) {
  hosts.clear();
  const Ran ran = runs("complete");
  EXPECT_EQ(ran.exit, ProcessExit{}) << ran.err;
  EXPECT_THAT(ran.err, ::testing::ContainsRegex("host localhost: [0-9]+ workers? \\([a-zA-Z]"));
}

TEST_F(Cluster, DividesTheCoresAmongTheSlots) {
  const auto ran = runs("complete");
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  EXPECT_THAT(ran.out, HasSubstr("threads " + std::to_string(std::max(cores / 2, 1L)) + "\n"));
}

TEST_F(Cluster, WarnsIfTheWorkersWouldHaveMoreThreadsThanCores) {
  const std::string threads = std::to_string(32 * usable_cores());
  launcher += " OMP_NUM_THREADS=" + threads;
  const Ran ran = runs("complete");
  EXPECT_EQ(ran.exit, ProcessExit{}) << ran.err;
  EXPECT_THAT(ran.err,
              HasSubstr("host localhost: OMP_NUM_THREADS=" + threads + ": 2 workers would run "));
}

TEST_F(Cluster, RefusesAnAbsurdNumberOfThreads) {
  launcher += " OMP_NUM_THREADS=100000";
  const Ran ran = runs("complete");
  EXPECT_NE(ran.exit, ProcessExit{});
  EXPECT_THAT(ran.err, HasSubstr("OMP_NUM_THREADS=100000: expected 1 to "));
  EXPECT_THAT(processes_left(), IsEmpty());
}

TEST_F(Cluster, NamesTheKilledWorkerAndNotAPeerThatLostItsConnection) {
  const Ran ran = runs("killed:1");
  EXPECT_EQ(ran.exit.code, 1);
  EXPECT_THAT(
      ran.last_line(),
      MatchesRegex(
          "pfc-coordinator: error: job failed: rank 1 \\(host localhost, slot 1, pid [0-9]+\\): "
          "killed by signal 9 \\(SIGKILL\\)"));
  EXPECT_THAT(processes_left(), IsEmpty());
}

TEST_F(Cluster, ReportsTheLastLineThatACrashedWorkerWrote) {
  const Ran ran = runs("exits:0");
  EXPECT_EQ(ran.exit.code, 1);
  EXPECT_THAT(ran.last_line(),
              AllOf(HasSubstr("rank 0"), HasSubstr("exited with code 7: out of luck")));
}

TEST_F(Cluster, EndsWithTheMessageOfTheWorkerThatFailed) {
  EXPECT_THAT(runs("fails:1").last_line(), HasSubstr("loss is not finite at step 3"));
}

TEST_F(Cluster, ExitsWithTwoForBadInputThatAWorkerFinds) {
  const Ran ran = runs("bad_input:1");
  EXPECT_EQ(ran.exit.code, 2);
  EXPECT_THAT(ran.last_line(), HasSubstr("train.rec: no such file"));
}

TEST_F(Cluster, PassesTheCollectiveTimeoutToWorkers) {
  EXPECT_THAT(runs("complete").out, HasSubstr("[rank 1] collective timeout 300\n"));
  EXPECT_THAT(runs("complete", {"--collective-timeout", "1.5min"}).out,
              HasSubstr("[rank 1] collective timeout 90\n"));
  EXPECT_THAT(runs("complete", {"--collective-timeout", "500ms"}).out,
              HasSubstr("[rank 1] collective timeout 0.5\n"));
  const Ran refused = runs("complete", {"--collective-timeout", "0"});
  EXPECT_EQ(refused.exit.code, 2);
  EXPECT_THAT(refused.last_line(), HasSubstr("--collective-timeout"));
}

TEST_F(Cluster, NamesAWorkerThatDoesNotJoinInTime) {
  const Ran ran = runs("never_joins:1", {"--start-timeout", "10s"});
  EXPECT_EQ(ran.exit.code, 3);
  EXPECT_THAT(ran.last_line(), AllOf(HasSubstr("rank 1 (host localhost, slot 1, pid "),
                                     HasSubstr("has not joined after 10 s")));
  EXPECT_THAT(processes_left(), IsEmpty());
}

TEST_F(Cluster, NamesAWorkerThatDoesNotBeginToTrainInTime) {
  const Ran ran = runs("never_trains:1", {"--start-timeout", "10s"});
  EXPECT_EQ(ran.exit.code, 3);
  EXPECT_THAT(ran.last_line(),
              AllOf(HasSubstr("rank 1 (host localhost, slot 1, pid "),
                    HasSubstr("has not begun to train: no progress for 10 s in: opening /data")));
  EXPECT_THAT(processes_left(), IsEmpty());
}

TEST_F(Cluster, StopsTheWorkersOnSigintAndLeavesNoProcess) {
  const auto coordinator = starts("until_stop");
  wait_for_output("[rank 1] world size 2");
  EXPECT_EQ(find_coordinator(folder / "state", "").pid, coordinator->pid());
  coordinator->send(SIGINT);
  const Ran ran = ends(*coordinator);
  EXPECT_EQ(ran.exit.code, 130) << ran.err;
  EXPECT_EQ(ran.last_line(), "pfc-coordinator: job stopped by SIGINT");
  EXPECT_THAT(processes_left(), IsEmpty());
}

TEST_F(Cluster, ExitsWithOneWhenASecondSignalEndsTheJobByForce) {
  const auto coordinator = starts("stubborn:1");
  wait_for_output("[rank 1] ignores stops");
  coordinator->send(SIGTERM);
  coordinator->send(SIGINT);
  const Ran ran = ends(*coordinator);
  EXPECT_EQ(ran.exit.code, 1);
  EXPECT_THAT(processes_left(), IsEmpty());
}

TEST_F(Cluster, EndsTheWorkersWhenTheCoordinatorIsKilled) {
  const auto coordinator = starts("until_stop", {"--coordinator-grace", "0"});
  wait_for_output("[rank 1] world size 2");
  coordinator->send(SIGKILL);
  ends(*coordinator);
  while (!processes_left().empty()) std::this_thread::sleep_for(std::chrono::milliseconds{10});
}

TEST_F(Cluster, LetsTheWorkersSaveTheirStateWhenTheCoordinatorIsKilled) {
  const auto coordinator = starts("saves", {"--coordinator-grace", "0"});
  wait_for_output("[rank 1] world size 2");
  wait_for_output("\nworld size 2");
  coordinator->send(SIGKILL);
  const Ran ran = ends(*coordinator);
  while (!processes_left().empty()) std::this_thread::sleep_for(std::chrono::milliseconds{10});
  EXPECT_TRUE(fs::exists(folder / "saved-0"));
  EXPECT_TRUE(fs::exists(folder / "saved-1"));
  // The message comes from the kernel or the connection, whichever is first.
  EXPECT_THAT(contents(folder / "err"),
              AnyOf(HasSubstr("pfc-agent: error: the coordinator was killed"),
                    ContainsRegex("pfc-agent: error: coordinator \\S+ cannot be reached")));
}

TEST_F(Cluster, ReportsBadInputInOneLineBeforeAnythingStarts) {
  const Ran ran = runs("complete", {"--set", "netwrk=r18"});
  EXPECT_EQ(ran.exit.code, 2);
  EXPECT_THAT(ran.err,
              MatchesRegex("pfc-coordinator: error: --set netwrk=r18[^\n]*network[^\n]*\n"));
  EXPECT_EQ(ran.out, "");
  EXPECT_FALSE(fs::exists(folder / "state"));
}

TEST_F(Cluster, ExitsWith129OnSighup) {
  const auto coordinator = starts("until_stop");
  wait_for_output("[rank 1] world size 2");
  coordinator->send(SIGHUP);
  EXPECT_EQ(ends(*coordinator).exit.code, 129);
}

TEST_F(Cluster, IgnoresSighupUnderNohup) {
  launcher = "exec nohup";
  const auto coordinator = starts("until_stop");
  wait_for_output("[rank 1] world size 2");
  coordinator->send(SIGHUP);
  coordinator->send(SIGTERM);
  EXPECT_EQ(ends(*coordinator).last_line(), "pfc-coordinator: job stopped by SIGTERM");
}

TEST_F(Cluster, ExitsWithThreeIfItsAgentCannotBeStarted) {
  programs = (folder / "bin").string();
  fs::create_directory(programs);
  fs::copy_file(CLUSTER_FOLDER "/pfc-coordinator", programs + "/pfc-coordinator");
  const Ran ran = runs("complete");
  EXPECT_EQ(ran.exit.code, 3);
  EXPECT_THAT(ran.last_line(), AllOf(HasSubstr("job failed: host localhost: "),
                                     HasSubstr("/bin/pfc-agent: cannot be started")));
}

TEST_F(Cluster, ContinuesIfStdoutIsNotRead) {
  stdout_path = (folder / "pipe").string();
  ASSERT_EQ(mkfifo(stdout_path.c_str(), S_IRWXU), 0);
  const int reader = open(stdout_path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const auto coordinator = starts("floods:1");
  std::optional<ProcessExit> exit;
  while (!(exit = coordinator->poll())) std::this_thread::sleep_for(std::chrono::milliseconds{5});
  const Ran ran{.exit = *exit, .out = {}, .err = contents(folder / "err")};
  EXPECT_EQ(ran.exit.code, 1);
  EXPECT_THAT(ran.last_line(), HasSubstr("it has said enough"));
  EXPECT_THAT(ran.err, ContainsRegex("warning: [0-9]+ lines of output could not be written"));
  close(reader);
}

/// Opens connections that send nothing.
std::vector<Fd> idle_connections(int count, const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  std::vector<Fd> sockets;
  for (int i = 0; i < count; ++i) {
    sockets.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(sockets.back(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  return sockets;
}

TEST_F(Cluster, AnswersCallsDespiteManyIdleConnections) {
  launcher = "ulimit -n 48; exec";
  const auto coordinator = starts("until_stop");
  wait_for_output("[rank 1] world size 2");
  const CoordinatorFile file = find_coordinator(folder / "state", "");
  for (const std::string& address : {file.http_address, file.address}) {
    const std::vector<Fd> idle = idle_connections(60, address);
    const auto stub = proto::CoordinatorService::NewStub(
        make_channel(file.address, read_credential(folder / "state" / "security" / "admin.pem")));
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds{30});
    proto::StatusReply reply;
    const grpc::Status status = stub->Status(&context, proto::StatusRequest(), &reply);
    EXPECT_TRUE(status.ok()) << address << ": " << status.error_message();
    EXPECT_EQ(reply.state(), "training");
  }
  coordinator->send(SIGTERM);
  EXPECT_EQ(ends(*coordinator).exit.code, 143);
}

TEST_F(Cluster, RejectsATooLowLimitOfOpenFilesAtTheStart) {
  launcher = "ulimit -n 20; exec";
  const Ran ran = runs("complete");
  EXPECT_EQ(ran.exit.code, 2);
  EXPECT_EQ(ran.last_line(),
            "pfc-coordinator: error: open files: found a limit of 20 (ulimit -Hn), expected at "
            "least 29; raise it");
}

TEST_F(Cluster, RunsWithTheFewestOpenFilesThatItAccepts) {
  launcher = "ulimit -n 20; exec";
  const std::string refusal = runs("complete").last_line();
  const std::string least = refusal.substr(refusal.find("at least ") + 9);
  launcher = "ulimit -n " + least.substr(0, least.find(';')) + "; exec";
  const Ran ran = runs("complete");
  EXPECT_EQ(ran.exit.code, 0) << ran.err;
}

TEST_F(Cluster, EndsWithAMessageUnderAnyLimitOfProcesses) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become a user without other processes";
  fs::permissions(folder.path(), fs::perms::all);
  for (const int limit : {2, 6, 16, 22, 28, 34}) {
    // LeakSanitizer is off, because it would need one more process.
    launcher = "exec env ASAN_OPTIONS=detect_leaks=0 prlimit --nproc=" + std::to_string(limit) +
               " setpriv --reuid=" + std::to_string(61'000 + limit) +
               " --regid=65534 --clear-groups";
    const Ran ran = runs("complete", {"--start-timeout", "2s"});
    EXPECT_EQ(ran.exit.signal, 0) << limit << ": " << ran.err;
    EXPECT_THAT(ran.err, Not(HasSubstr("terminate called"))) << limit;
    // An agent that cannot start its threads may report it after the coordinator has ended.
    const std::size_t last = ran.err.rfind("pfc-coordinator: ");
    ASSERT_NE(last, std::string::npos) << limit << ": " << ran.err;
    EXPECT_THAT(ran.err.substr(last),
                ::testing::StartsWith(ran.exit.code == 0 ? "pfc-coordinator: job completed"
                                                         : "pfc-coordinator: error: "))
        << limit << ": " << ran.err;
    fs::remove_all(folder / "state");
  }
  EXPECT_THAT(processes_left(), IsEmpty());
}

TEST_F(Cluster, ExitsWithTwoForAMistypedOptionAndSuggestsTheCorrectOption) {
  const Ran ran = runs("complete", {"--hots", "a"});
  EXPECT_EQ(ran.exit.code, 2);
  EXPECT_THAT(ran.last_line(), HasSubstr("unknown option --hots; did you mean --hosts?"));
}

TEST_F(Cluster, AgentAlsoTakesVersionAndExitsWithTwoForAnUnknownOption) {
  const auto agent = [&](const std::string& argument) {
    const std::string output = " >" + (folder / "out").string() + " 2>&1";
    const int status = std::system((CLUSTER_FOLDER "/pfc-agent " + argument + output).c_str());
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(agent("--version"), 0);
  EXPECT_EQ(agent("--bogus"), 2);
  EXPECT_THAT(contents(folder / "out"), HasSubstr("pfc-agent: error: unknown option --bogus"));
}

TEST_F(Cluster, WarnsOfIgnoredKeys) {
  EXPECT_THAT(runs("complete", {"--set", "using_wandb=true"}).err,
              HasSubstr("pfc-coordinator: warning: " + (folder / "job.json").string() +
                        ": using_wandb is ignored: pfc sends nothing to Weights & Biases"));
}

TEST_F(Cluster, PrintsASingleWorkerInTheSingular) {
  hosts = {"--hosts", "localhost:1"};
  EXPECT_THAT(runs("complete").err, HasSubstr("generation 1: starting 1 worker\n"));
}

TEST_F(Cluster, PrintsTheSameFailureOfAllRanksOnce) {
  hosts = {"--hosts", "localhost:4"};
  const Ran ran = runs("all_fail");
  EXPECT_THAT(ran.last_line(), HasSubstr("job failed: ranks 0-3: train.rec: no such file"));
  const std::string all = ran.out + ran.err;
  EXPECT_EQ(all.find("no such file"), all.rfind("no such file")) << all;
}

}  // namespace
}  // namespace pfc
