#include "agent/chaos/faults.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "common/clock.h"
#include "common/files/fd.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// Returns the state of a process: "T" if stopped.
std::string state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string id, name, state;
  file >> id >> name >> state;
  return state;
}

class FaultsOfAHost : public ::testing::Test {
 protected:
  FaultsOfAHost() {
    worker = WorkerProcess::start(
        loop, {.program = "/bin/sleep", .arguments = {"600"}, .capture_output = true},
        {.output = [](bool, const auto&) {},
         .ended = [this](const ProcessExit& how, const auto&) { exit = how; }});
  }
  ~FaultsOfAHost() override { worker->abandon(); }

  std::string begins(Faults& faults, proto::FaultKind kind, std::chrono::milliseconds lasts = 0ms,
                     bool only_ask = false) {
    proto::Fault fault;
    fault.set_kind(kind);
    fault.set_slot(1);
    fault.set_incarnation(3);
    fault.set_lasts_ms(lasts.count());
    fault.set_only_ask(only_ask);
    fault.add_addresses("10.9.8.7");
    std::string said = "nothing";
    faults.begin(fault, [&said](const std::string& problem) { said = problem; });
    return said;
  }

  template <typename Condition>
  bool comes(Condition condition) {
    const TimePoint deadline = Clock::now() + 60s;
    while (!condition() && Clock::now() < deadline) {
      worker->look();
      loop.run_for(10ms);
      std::this_thread::sleep_for(5ms);  // run_for() returns at once if the loop has no work
      loop.restart();
    }
    return condition();
  }

  Faults::Options allowed() {
    return {.allowed = true,
            .worker =
                [this](int slot, std::int64_t incarnation) {
                  return slot == 1 && incarnation == 3 ? worker : nullptr;
                },
            .die = [this] { died = true; }};
  }

  boost::asio::io_context loop{1};
  std::shared_ptr<WorkerProcess> worker;
  std::optional<ProcessExit> exit;
  bool died = false;
};

TEST_F(FaultsOfAHost, AreRefusedUnlessTheAgentAllowsThem) {
  Faults::Options options = allowed();
  options.allowed = false;
  Faults faults(loop, options);
  for (const auto kind : {proto::FAULT_UNDO, proto::FAULT_KILL_WORKER, proto::FAULT_STOP_WORKER,
                          proto::FAULT_PARTITION, proto::FAULT_KILL_AGENT}) {
    EXPECT_THAT(begins(faults, kind), HasSubstr("start it with pfc-agent --allow-chaos"));
  }
  loop.run_for(300ms);
  EXPECT_TRUE(comes([&] { return state_of(worker->pid()) == "S"; }));
  EXPECT_FALSE(died);
}

TEST_F(FaultsOfAHost, KillAWorker) {
  Faults faults(loop, allowed());
  EXPECT_EQ(begins(faults, proto::FAULT_KILL_WORKER), "");
  EXPECT_TRUE(comes([&] { return exit.has_value(); }));
  EXPECT_EQ(exit->signal, SIGKILL);
}

TEST_F(FaultsOfAHost, StopAWorkerForAWhile) {
  Faults faults(loop, allowed());
  EXPECT_EQ(begins(faults, proto::FAULT_STOP_WORKER, 2s), "");
  EXPECT_TRUE(comes([&] { return state_of(worker->pid()) == "T"; }));
  EXPECT_TRUE(comes([&] { return state_of(worker->pid()) == "S"; }));
}

TEST_F(FaultsOfAHost, StopAWorkerUntilAllOverlappingStopsAreOver) {
  Faults faults(loop, allowed());
  begins(faults, proto::FAULT_STOP_WORKER, 10min);
  begins(faults, proto::FAULT_STOP_WORKER, 100ms);
  EXPECT_TRUE(comes([&] { return state_of(worker->pid()) == "T"; }));
  // Timers run in order of expiry, so the stop of 100 ms has ended.
  boost::asio::steady_timer later(loop, 300ms);
  bool passed = false;
  later.async_wait([&passed](const boost::system::error_code&) { passed = true; });
  EXPECT_TRUE(comes([&passed] { return passed; }));
  EXPECT_EQ(state_of(worker->pid()), "T");
}

TEST_F(FaultsOfAHost, EndOnRequest) {
  Faults faults(loop, allowed());
  begins(faults, proto::FAULT_STOP_WORKER, 10min);
  EXPECT_TRUE(comes([&] { return state_of(worker->pid()) == "T"; }));
  begins(faults, proto::FAULT_UNDO);
  EXPECT_TRUE(comes([&] { return state_of(worker->pid()) == "S"; }));
}

TEST_F(FaultsOfAHost, EndWithTheAgent) {
  {
    Faults faults(loop, allowed());
    begins(faults, proto::FAULT_STOP_WORKER, 10min);
    EXPECT_TRUE(comes([&] { return state_of(worker->pid()) == "T"; }));
  }
  EXPECT_TRUE(comes([&] { return state_of(worker->pid()) == "S"; }));
}

TEST_F(FaultsOfAHost, KillTheAgentAfterItsReply) {
  Faults faults(loop, allowed());
  EXPECT_EQ(begins(faults, proto::FAULT_KILL_AGENT), "");
  EXPECT_FALSE(died);
  EXPECT_TRUE(comes([&] { return died; }));
}

TEST_F(FaultsOfAHost, AreNotInjectedInADryRun) {
  Faults faults(loop, allowed());
  EXPECT_EQ(begins(faults, proto::FAULT_KILL_WORKER, 0ms, true), "");
  EXPECT_EQ(begins(faults, proto::FAULT_KILL_AGENT, 0ms, true), "");
  loop.run_for(300ms);
  worker->look();
  EXPECT_FALSE(exit || died);
}

TEST_F(FaultsOfAHost, AreRefusedForAMissingWorker) {
  Faults::Options options = allowed();
  options.worker = [](int, std::int64_t) { return nullptr; };
  Faults faults(loop, options);
  EXPECT_EQ(begins(faults, proto::FAULT_KILL_WORKER), "this worker no longer runs in slot 1");
}

/// Without it, datagrams have no IPv6 source address.
void loopback_up() {
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  const Fd fd(::socket(AF_INET, SOCK_DGRAM, 0));
  ASSERT_EQ(::ioctl(fd, SIOCSIFFLAGS, &request), 0);
}

/// Runs its body on a thread in a separate network namespace without routes.
template <typename Body>
void in_a_network_of_its_own(Body body) {
  bool made = false;
  std::thread([&] {
    made = ::unshare(CLONE_NEWNET) == 0;
    if (!made) return;
    loopback_up();
    body();
  }).join();
  if (!made) GTEST_SKIP() << "this user cannot make a network namespace";
}

/// Returns the error of a datagram to this address, or 0 if there is a route.
int way_to(const char* address) {
  const bool v6 = std::string(address).find(':') != std::string::npos;
  const Fd fd(::socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0));
  sockaddr_in to4{.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {}, .sin_zero = {}};
  sockaddr_in6 to6{};
  to6.sin6_family = AF_INET6;
  to6.sin6_port = htons(9);
  inet_pton(AF_INET, address, &to4.sin_addr);
  inet_pton(AF_INET6, address, &to6.sin6_addr);
  const int result = v6 ? ::connect(fd, reinterpret_cast<sockaddr*>(&to6), sizeof(to6))
                        : ::connect(fd, reinterpret_cast<sockaddr*>(&to4), sizeof(to4));
  return result == 0 ? 0 : errno;
}

template <typename Condition>
bool soon(Condition condition) {
  const TimePoint deadline = Clock::now() + 60s;
  while (!condition() && Clock::now() < deadline) std::this_thread::sleep_for(10ms);
  return condition();
}

TEST_F(FaultsOfAHost, RefuseToCutTheHostOffTwice) {
  in_a_network_of_its_own([this] {
    Faults faults(loop, allowed());
    EXPECT_EQ(begins(faults, proto::FAULT_PARTITION, 10min), "");
    EXPECT_EQ(begins(faults, proto::FAULT_PARTITION, 10min), "this host is cut off already");
    begins(faults, proto::FAULT_UNDO);
    EXPECT_EQ(begins(faults, proto::FAULT_PARTITION, 10min), "");
  });
}

TEST(PartitionOfAHost, CutsAddressesOffUntilItEnds) {
  in_a_network_of_its_own([] {
    EXPECT_EQ(CutRoutes::obstacle(), "");
    {
      const Partition partition({"10.9.8.7", "fd00::7", "127.0.0.1", "no address"}, 10min);
      EXPECT_EQ(way_to("10.9.8.7"), EHOSTUNREACH);
      EXPECT_EQ(way_to("fd00::7"), EHOSTUNREACH);
      EXPECT_EQ(way_to("10.9.8.8"), ENETUNREACH) << "other addresses are not affected";
    }
    EXPECT_EQ(way_to("10.9.8.7"), ENETUNREACH);
    EXPECT_EQ(way_to("fd00::7"), ENETUNREACH);
  });
}

TEST(PartitionOfAHost, EndsOnTimeEvenIfTheAgentIsKilled) {
  in_a_network_of_its_own([] {
    const pid_t agent = fork();
    if (agent == 0) {
      const Partition partition({"10.9.8.7"}, 2s);
      raise(SIGKILL);
    }
    waitpid(agent, nullptr, 0);
    EXPECT_EQ(way_to("10.9.8.7"), EHOSTUNREACH);
    EXPECT_TRUE(soon([] { return way_to("10.9.8.7") == ENETUNREACH; }));
  });
}

TEST(PartitionOfAHost, IsRemovedByTheNextAgentAfterAllProcessesWereKilled) {
  in_a_network_of_its_own([] {
    CutRoutes({"10.9.8.7", "fd00::7"}).add();
    CutRoutes::remove_all();
    EXPECT_EQ(way_to("10.9.8.7"), ENETUNREACH);
    EXPECT_EQ(way_to("fd00::7"), ENETUNREACH);
  });
}

TEST(PartitionOfAHost, LeavesNoRoutesIfItFails) {
  in_a_network_of_its_own([] {
    const CutRoutes there({"10.9.8.7"});
    there.add();
    EXPECT_THROW(Partition({"10.9.8.6", "10.9.8.7"}, 10min), std::runtime_error);
    EXPECT_EQ(way_to("10.9.8.6"), ENETUNREACH);
  });
}

TEST_F(FaultsOfAHost, CutTheHostOffAfterTheReply) {
  in_a_network_of_its_own([this] {
    Faults faults(loop, allowed());
    EXPECT_EQ(begins(faults, proto::FAULT_PARTITION, 10min), "");
    EXPECT_EQ(way_to("10.9.8.7"), ENETUNREACH) << "the reply must be sent before the cut";
    EXPECT_TRUE(comes([] { return way_to("10.9.8.7") == EHOSTUNREACH; }));
    EXPECT_EQ(begins(faults, proto::FAULT_PARTITION, 10min), "this host is cut off already");
  });
}

TEST_F(FaultsOfAHost, ReportWhyTheHostCannotBeCutOff) {
  in_a_network_of_its_own([this] {
    Faults faults(loop, allowed());
    const CutRoutes there({"10.9.8.7"});
    there.add();
    EXPECT_THAT(begins(faults, proto::FAULT_PARTITION, 10min),
                HasSubstr("cannot add the route that cuts off 10.9.8.7: File exists"));
    loop.run_for(300ms);
    there.remove();
    EXPECT_EQ(way_to("10.9.8.7"), ENETUNREACH);
  });
}

}  // namespace
}  // namespace pfc
