// Tests an agent that loses its coordinator for a while, or gets another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/access/gate.h"
#include "security/authority.h"
#include "tests/agent/agent_fixture.h"
#include "tests/coordinator/running_coordinator.h"
#include "tests/support/relay.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using testing::AgentOfAHost;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::RunningAgent;
using testing::RunningCoordinator;
using testing::wait_until;

TEST_F(AgentOfAHost, EndsTheWorkersOfADeadCoordinatorAndStartsThoseOfTheNextCoordinator) {
  workers_do("echo $4 $$ >> " + (folder / "jobs").string() + "; exec sleep 1000");
  const auto started = [&] {
    std::vector<std::pair<std::string, int>> jobs;
    std::ifstream stream(folder / "jobs");
    std::string job;
    for (int pid = 0; stream >> job >> pid;) jobs.emplace_back(job, pid);
    return jobs;
  };
  RunningCoordinator first({{.name = "a", .slots = 1}});
  // Through the relay, the next coordinator has the address of the dead one.
  testing::Relay address(first.port());
  AgentOptions patient = options("127.0.0.1:" + std::to_string(address.port()));
  patient.coordinator_grace = 10min;
  RunningAgent agent(patient);
  wait_until([&] { return started().size() == 1; });
  address.set(testing::Relay::Link::kCut);
  RendezvousConfig unhurried = testing::impatient();
  unhurried.limits.start = 10min;  // the worker never joins
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

TEST_F(AgentOfAHost, RefusesAnotherAuthorityAtTheAddressOfADeadCoordinator) {
  workers_do("echo $4 >> " + (folder / "jobs").string() + "; exec sleep 1000");
  const auto jobs = [&] {
    std::ifstream stream(folder / "jobs");
    return std::string{std::istreambuf_iterator<char>(stream), {}};
  };
  Gate gate({.state_dir = folder / "first"}), another({.state_dir = folder / "second"});
  const std::vector<HostSpec> hosts = {{.name = "a", .slots = 1}};
  RunningCoordinator first(hosts, testing::impatient(), 0, "first", &gate);
  testing::Relay address(first.port());
  AgentOptions waiting = options("127.0.0.1:" + std::to_string(address.port()));
  waiting.credential = gate.credential_for_local_agent("a");
  waiting.coordinator_grace = 1s;
  RunningAgent agent(waiting);
  wait_until([&] { return jobs() == "first\n"; });
  RunningCoordinator second(hosts, testing::impatient(), 0, "second", &another);
  address.lead_to(second.port());
  address.set(testing::Relay::Link::kCut);
  address.set(testing::Relay::Link::kWhole);
  EXPECT_THAT(agent.problem(), HasSubstr("certificate"));
  EXPECT_FALSE(second.status().hosts(0).registered());
  EXPECT_EQ(jobs(), "first\n");
}

TEST_F(AgentOfAHost, SuggestsCheckingTheMtuWhenItsTlsHandshakeIsNotAnswered) {
  boost::asio::io_context loop;
  // The kernel accepts connections here, but no program answers.
  const boost::asio::ip::tcp::acceptor silent(loop, {boost::asio::ip::address_v4::loopback(), 0});
  const Authority authority(folder.path());
  AgentOptions impatient = options("127.0.0.1:" + std::to_string(silent.local_endpoint().port()));
  impatient.credential = authority.make_credential({.role = Role::kAgent, .host = "a"});
  impatient.patience = 1ms;
  EXPECT_THAT(RunningAgent(impatient).problem(),
              AllOf(HasSubstr("cannot be reached"), HasSubstr("MTU")));
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

// The coordinator ends a job if a host is silent for 20 s. That is long enough for a slow machine,
// but shorter than gRPC's own pauses between DNS queries and between connections, which grow to
// minutes.
TEST_P(LinkOfAnAgent, SurvivesThreeSecondsOfRefusedConnections) {
  RunningAgent agent(over_the_relay());
  is_cut_for(3s, testing::Relay::Link::kCut);
  EXPECT_EQ(coordinator.status().state(), "starting") << coordinator.status().reason();
  coordinator.shut_down();
}

TEST_P(LinkOfAnAgent, SurvivesThreeSecondsWithoutTraffic) {
  RunningAgent agent(over_the_relay());
  is_cut_for(3s, testing::Relay::Link::kSilent);
  EXPECT_EQ(coordinator.status().state(), "starting") << coordinator.status().reason();
  coordinator.shut_down();
}

INSTANTIATE_TEST_SUITE_P(ByAddressAndName, LinkOfAnAgent,
                         ::testing::Values("127.0.0.1", "localhost"));

}  // namespace
}  // namespace pfc
