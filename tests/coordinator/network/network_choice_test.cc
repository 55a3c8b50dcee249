// Tests the choice of a network by whole measurements of simulated hosts.
#include "coordinator/network/network_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/coordinator/network/simulated_hosts.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SimulatedHosts;
using ::testing::StartsWith;

/// Two networks between all hosts: the coordinator's, and another one.
SimulatedHosts three_hosts() {
  SimulatedHosts hosts;
  hosts.host("a", {"eth0 10.0.0.1/24", "eth1 10.9.0.1/24"});
  hosts.host("b", {"eth0 10.0.0.2/24", "eth1 10.9.0.2/24"});
  hosts.host("c", {"eth0 10.0.0.3/24", "eth1 10.9.0.3/24"});
  return hosts;
}

TEST(ChooseNetwork, TakesTheFastestNetwork) {
  SimulatedHosts hosts = three_hosts();
  hosts.speed("10.9.0.0/24", 9.4e9);
  const NetworkChoice choice = hosts.measured();
  EXPECT_EQ(choice.address, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(choice.text,
            "network 10.9.0.0/24 (eth1): 3 hosts, slowest pair a to b 9.4 Gbit/s; not used: "
            "10.0.0.0/24 (slowest pair a to b 1.0 Gbit/s)");
}

TEST(ChooseNetwork, IgnoresATemporarilySlowHost) {
  for (int transfer = 1; transfer <= 24; ++transfer) {
    SimulatedHosts hosts = three_hosts();
    hosts.speed("10.9.0.0/24", 9.4e9);
    hosts.stumbles_at = transfer;
    EXPECT_EQ(hosts.measured().address, (std::vector<int>{1, 1, 1})) << "transfer " << transfer;
    EXPECT_EQ(hosts.transfers, 24);
  }
}

TEST(ChooseNetwork, PrefersTheCoordinatorsNetworkIfAboutEquallyFast) {
  SimulatedHosts hosts = three_hosts();
  hosts.speed("10.9.0.0/24", 1.24e9);
  EXPECT_THAT(hosts.chosen(), ElementsAre("10.0.0.1", "10.0.0.2", "10.0.0.3"));
  hosts.speed("10.9.0.0/24", 1.26e9);
  EXPECT_THAT(hosts.chosen(), ElementsAre("10.9.0.1", "10.9.0.2", "10.9.0.3"));
}

TEST(ChooseNetwork, TakesAFastNetworkOnlyIfItReachesAllHostsInBothDirections) {
  SimulatedHosts hosts = three_hosts();
  hosts.speed("10.9.0.0/24", 9.4e9);
  hosts.cut("10.9.0.3", "10.9.0.2");
  const NetworkChoice choice = hosts.measured();
  EXPECT_EQ(choice.address, (std::vector<int>{0, 0, 0}));
  EXPECT_THAT(choice.text, HasSubstr("; not used: 10.9.0.0/24 (c cannot reach b: Connection "));
}

TEST(ChooseNetwork, SaysWhichHostIsNotInANetwork) {
  SimulatedHosts hosts;
  hosts.host("a", {"eth0 10.0.0.1/24", "eth1 10.9.0.1/24"});
  hosts.host("b", {"enp3s0 10.0.0.2/24"});
  EXPECT_EQ(
      hosts.measured().text,
      "network 10.0.0.0/24: 2 hosts, slowest pair a to b 1.0 Gbit/s; not used: 10.9.0.0/24 (b "
      "is not in it)");
}

TEST(ChooseNetwork, RejectsABridgeThatIsPrivateToEachHost) {
  SimulatedHosts hosts;
  hosts.host("a", {"docker0 172.17.0.1/16", "eth0 10.0.0.1/24"});
  hosts.host("b", {"docker0 172.17.0.1/16", "eth0 10.0.0.2/24"});
  hosts.cut("172.17.0.1", "172.17.0.1");
  EXPECT_THAT(hosts.chosen(), ElementsAre("10.0.0.1", "10.0.0.2"));
}

TEST(ChooseNetwork, TakesIpv6IfIpv4DoesNotReachAllHosts) {
  SimulatedHosts hosts;
  hosts.host("a", {"eth0 10.0.0.1/24", "eth0 fd00::1/64"});
  hosts.host("b", {"eth0 10.0.0.2/24", "eth0 fd00::2/64"});
  EXPECT_THAT(hosts.chosen(), ElementsAre("10.0.0.1", "10.0.0.2"));
  hosts.cut("10.0.0.1", "10.0.0.2");
  EXPECT_THAT(hosts.chosen(), ElementsAre("fd00::1", "fd00::2"));
}

TEST(ChooseNetwork, MeasuresOnlyOneOfTwoNetworksOnTheSameInterfaces) {
  SimulatedHosts hosts;
  hosts.host("a", {"eth0 10.0.0.1/24", "eth0 fd00::1/64"});
  hosts.host("b", {"eth0 10.0.0.2/24", "eth0 fd00::2/64"});
  EXPECT_THAT(hosts.measured().text, Not(HasSubstr("not used")));
  EXPECT_EQ(hosts.transfers, 2);
}

TEST(ChooseNetwork, TakesNetworksOfOneInterfaceThatRoutersConnect) {
  SimulatedHosts hosts;
  hosts.host("a", {"eth0 10.0.1.1/24"});
  hosts.host("b", {"eth0 10.0.2.1/24"});
  hosts.host("c", {"eth0 10.0.3.1/24"});
  hosts.routed();
  EXPECT_THAT(hosts.measured().text, StartsWith("network interface eth0: 3 hosts, slowest pair "));
}

TEST(ChooseNetwork, TakesAnyAddressesThatReachEachOther) {
  SimulatedHosts hosts;
  hosts.host("a", {"eth0 10.0.1.1/24", "eth1 10.9.1.1/24"});
  hosts.host("b", {"ens5 10.0.2.1/24", "ens6 10.9.2.1/24"});
  hosts.host("c", {"p1p1 10.0.3.1/24"});
  hosts.routed();
  hosts.cut("10.0.1.1", "10.0.2.1");
  const NetworkChoice choice = hosts.measured();
  EXPECT_THAT(choice.text, StartsWith("network any IPv4: 3 hosts, "));
  EXPECT_EQ(choice.address, (std::vector<int>{0, 1, 0}));
}

TEST(ChooseNetwork, NamesThePairThatHasNoNetwork) {
  SimulatedHosts hosts;
  hosts.host("a", {"eth0 10.0.0.1/24", "eth1 10.1.0.1/24"});
  hosts.host("b", {"eth0 10.0.0.2/24"});
  hosts.host("c", {"eth0 10.1.0.3/24"});
  const NetworkChoice choice = hosts.measured();
  EXPECT_TRUE(choice.address.empty());
  EXPECT_EQ(choice.text,
            "host b cannot reach host c: b has 10.0.0.2/24 (eth0); c has 10.1.0.3/24 (eth0); tried "
            "10.0.0.2 to 10.1.0.3: Connection timed out");
}

TEST(ChooseNetwork, NamesAPairWithoutACommonAddressFamily) {
  SimulatedHosts hosts;
  hosts.host("a", {"eth0 10.0.0.1/24"});
  hosts.host("b", {"eth0 fd00::2/64"});
  EXPECT_EQ(hosts.measured().text,
            "host a cannot reach host b: a has 10.0.0.1/24 (eth0); b has fd00::2/64 (eth0); they "
            "have no IP version in common");
}

TEST(ChooseNetwork, SaysWhyNoNetworkReachesAllHostsAlthoughEachPairSharesANetwork) {
  SimulatedHosts hosts;  // a ring of cables: every host reaches the others through different ports
  hosts.host("a", {"p1 10.0.0.1/24", "p2 10.2.0.1/24"});
  hosts.host("b", {"p1 10.0.0.2/24", "p2 10.1.0.2/24"});
  hosts.host("c", {"p1 10.1.0.3/24", "p2 10.2.0.3/24"});
  const NetworkChoice choice = hosts.measured();
  EXPECT_TRUE(choice.address.empty());
  EXPECT_THAT(choice.text, AllOf(StartsWith("no network reaches all hosts: "),
                                 HasSubstr("10.0.0.0/24 (c is not in it)"),
                                 HasSubstr("10.2.0.0/24 (b is not in it)")));
}

TEST(ChooseNetwork, DoesNotTakeANetworkThatConnectsButCarriesNoData) {
  SimulatedHosts hosts = three_hosts();
  hosts.speed("10.0.0.0/24", 0);
  const NetworkChoice choice = hosts.measured();
  EXPECT_EQ(choice.address, (std::vector<int>{1, 1, 1}));
  EXPECT_THAT(choice.text, HasSubstr("10.0.0.0/24 (a to b connects, but no data arrive (Connection "
                                     "timed out); the MTU is 1500 and 1500 bytes)"));
}

TEST(ChooseNetwork, FailsIfNoNetworkCarriesDataInTwoAttempts) {
  SimulatedHosts hosts;
  hosts.host("a", {"eth0 10.0.0.1/24"});
  hosts.host("b", {"eth0 10.0.0.2/24"});
  hosts.speed("10.0.0.0/24", 0);
  const NetworkChoice choice = hosts.measured();
  EXPECT_TRUE(choice.address.empty());
  EXPECT_THAT(choice.text,
              StartsWith("no network reaches all hosts: 10.0.0.0/24 (a to b connects, "));
  EXPECT_EQ(hosts.transfers, 4);
}

TEST(ChooseNetwork, TakesOnlyTheRequestedNetwork) {
  SimulatedHosts hosts = three_hosts();
  hosts.speed("10.0.0.0/24", 1e6);
  EXPECT_THAT(hosts.chosen("10.0.0.0/16"), ElementsAre("10.0.0.1", "10.0.0.2", "10.0.0.3"));
  EXPECT_THAT(hosts.chosen("eth1"), ElementsAre("10.9.0.1", "10.9.0.2", "10.9.0.3"));
}

TEST(ChooseNetwork, NamesTheHostWithoutAnAddressInTheRequestedNetwork) {
  SimulatedHosts hosts = three_hosts();
  EXPECT_EQ(
      hosts.measured("10.7.0.0/16").text,
      "--network 10.7.0.0/16: host a has no matching address, only 10.0.0.1/24 (eth0), 10.9.0.1/24 "
      "(eth1)");
}

TEST(ChooseNetwork, KeepsTheNetworkThatWasUsedBeforeWithoutMeasuringItsSpeed) {
  SimulatedHosts hosts = three_hosts();
  hosts.speed("10.0.0.0/24", 50e9);
  for (NetworkHost& host : hosts.hosts) host.earlier = host.addresses[1].address;
  const NetworkChoice choice = hosts.measured();
  EXPECT_EQ(choice.address, (std::vector<int>{1, 1, 1}));
  EXPECT_THAT(choice.text,
              StartsWith("network 10.9.0.0/24 (eth1): 3 hosts, used before and not measured again; "
                         "not used: "));
  EXPECT_EQ(hosts.transfers, 0);
}

TEST(SpeedText, HasTheUnitThatFits) {
  EXPECT_EQ(speed_text(9.44e9), "9.4 Gbit/s");
  EXPECT_EQ(speed_text(94.4e9), "94 Gbit/s");
  EXPECT_EQ(speed_text(20e6), "20 Mbit/s");
  EXPECT_EQ(speed_text(300), "0.3 kbit/s");
}

/// Returns whether addresses exist such that all hosts reach each other. Exhaustive search.
bool some_choice_reaches_all(const SimulatedHosts& hosts, std::vector<const HostAddress*> chosen) {
  if (chosen.size() == hosts.hosts.size()) return true;
  for (const HostAddress& each : hosts.hosts[chosen.size()].addresses) {
    const auto fits = [&](const HostAddress* other) {
      return hosts.connects(each, *other) && hosts.connects(*other, each);
    };
    if (!std::ranges::all_of(chosen, fits)) continue;
    chosen.push_back(&each);
    if (some_choice_reaches_all(hosts, chosen)) return true;
    chosen.pop_back();
  }
  return false;
}

class RandomHosts : public SimulatedHosts {
 public:
  explicit RandomHosts(unsigned seed) : random_(seed) {
    if (draw(3) == 0) routed();
    const int count = 2 + draw(4), networks = 1 + draw(3);
    for (int i = 0; i < count; ++i) {
      std::vector<std::string> addresses;
      for (int n = 0; n < networks; ++n) {
        if (draw(5) > 0) {
          addresses.push_back("eth" + std::to_string(draw(3)) + " " + network(n) +
                              std::to_string(i + 1) + (n == 2 ? "/64" : "/24"));
        }
      }
      if (addresses.empty()) addresses.push_back("eth0 10.0.0." + std::to_string(i + 1) + "/24");
      host("host" + std::to_string(i), addresses);
    }
    for (int n = 0; n < networks; ++n) {
      speed(n == 2 ? "fd00::/64" : network(n) + "0/24", 1e6 * (1 + draw(100)));
    }
    for (int cuts = draw(4); cuts > 0; --cuts) cut(some_address(), some_address());
  }

 private:
  static std::string network(int n) {
    return n == 2 ? "fd00::" : "10." + std::to_string(n) + ".0.";
  }
  int draw(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  std::string some_address() {
    const auto& addresses = hosts[random_() % hosts.size()].addresses;
    return addresses[random_() % addresses.size()].address;
  }

  std::mt19937 random_;
};

TEST(ChooseNetwork, AgreesWithAnExhaustiveSearchForRandomHosts) {
  int reached = 0, missed = 0;
  for (unsigned seed = 0; seed < 3'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomHosts hosts(seed);
    const NetworkChoice choice = hosts.measured();
    ASSERT_EQ(!choice.address.empty(), some_choice_reaches_all(hosts, {})) << choice.text;
    (choice.address.empty() ? missed : reached) += 1;
    for (std::size_t a = 0; a < choice.address.size(); ++a) {
      for (std::size_t b = 0; b < choice.address.size(); ++b) {
        const auto chosen = [&](std::size_t host) {
          return hosts.hosts[host].addresses.at(static_cast<std::size_t>(choice.address[host]));
        };
        ASSERT_TRUE(a == b || hosts.connects(chosen(a), chosen(b))) << choice.text;
      }
    }
  }
  EXPECT_GT(reached, 500);
  EXPECT_GT(missed, 500);
}

TEST(ChooseNetwork, NamesTheHostWhoseRemovalLetsAllOthersReachEachOther) {
  SimulatedHosts hosts = three_hosts();
  for (const char* other : {"1", "3"}) {
    for (const std::string network : {"10.0.0.", "10.9.0."})
      hosts.cut(network + "2", network + other);
  }
  EXPECT_THAT(hosts.measured().apart, ElementsAre(1));
}

TEST(ChooseNetwork, NamesTheLaterOfTwoHostsThatDoNotReachEachOther) {
  SimulatedHosts hosts;
  hosts.host("a", {"eth0 10.0.0.1/24"});
  hosts.host("b", {"eth0 10.0.0.2/24"});
  hosts.cut("10.0.0.1", "10.0.0.2");
  EXPECT_THAT(hosts.measured().apart, ElementsAre(1));
}

TEST(UnreachableHosts, AreTheSmallerPartOfAPartitionedNetwork) {
  Reach reach(5);
  for (int from = 0; from < 5; ++from) {
    for (int to = 0; to < 5; ++to) {
      if (from == to) continue;
      const bool same = (from == 1 || from == 3) == (to == 1 || to == 3);
      reach.add({.from = {.host = from}, .to = {.host = to}}, same ? "" : "timed out");
    }
  }
  EXPECT_THAT(hosts_apart(5, reach), ElementsAre(1, 3));
}

}  // namespace
}  // namespace pfc
