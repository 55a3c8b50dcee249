#include "coordinator/network/network_measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/network/simulated_hosts.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::SimulatedHosts;
using ::testing::UnorderedElementsAre;

SimulatedHosts hosts_in_one_network(int count) {
  SimulatedHosts hosts;
  for (int i = 0; i < count; ++i) {
    const std::string address =
        "eth0 10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1) + "/16";
    hosts.host("host" + std::to_string(i), {address});
  }
  return hosts;
}

TEST(NetworkMeasurement, LetsAllHostsListenBeforeAnyConnects) {
  SimulatedHosts hosts = hosts_in_one_network(2);
  NetworkMeasurement measurement = hosts.measurement();
  ASSERT_EQ(hosts.sent.size(), 2U);
  EXPECT_EQ(hosts.sent[1].first, 1);
  EXPECT_EQ(hosts.sent[1].second.number(), 1);
  EXPECT_EQ(hosts.sent[1].second.host(), 1);
  EXPECT_EQ(hosts.sent[1].second.tests_size(), 0);
  EXPECT_EQ(hosts.sent[1].second.secret().size(), 32U);
}

TEST(NetworkMeasurement, NotifiesAllAgentsWhenItEnds) {
  SimulatedHosts hosts = hosts_in_one_network(2);
  hosts.measured();
  EXPECT_THAT(hosts.told_end, ElementsAre(0, 1));
}

TEST(NetworkMeasurement, NamesTheHostsThatDoNotAnswer) {
  SimulatedHosts hosts = hosts_in_one_network(3);
  hosts.is_silent(1);
  NetworkMeasurement measurement = hosts.measurement();
  hosts.answer(measurement);
  measurement.expire(hosts.now + 10s - 1ms);
  EXPECT_FALSE(measurement.choice());
  measurement.expire(hosts.now + 10s);
  ASSERT_TRUE(measurement.choice());
  EXPECT_TRUE(measurement.choice()->address.empty());
  EXPECT_EQ(measurement.choice()->text, "no answer from the agent of host1 within 10 s");
}

TEST(NetworkMeasurement, DoesNotCountTheTimeOfASuspendedCoordinator) {
  SimulatedHosts hosts = hosts_in_one_network(2);
  NetworkMeasurement measurement = hosts.measurement();
  measurement.postpone(1h);
  measurement.expire(hosts.now + 1h + 9s);
  EXPECT_FALSE(measurement.choice());
}

TEST(NetworkMeasurement, RepeatsTheStepForAReconnectedAgent) {
  SimulatedHosts hosts = hosts_in_one_network(2);
  NetworkMeasurement measurement = hosts.measurement();
  const auto first = hosts.sent.back();
  hosts.sent.pop_back();  // lost with the connection
  hosts.answer(measurement);
  EXPECT_FALSE(measurement.choice());
  measurement.repeat(1);
  ASSERT_EQ(hosts.sent.size(), 1U);
  EXPECT_EQ(hosts.sent.front().second.SerializeAsString(), first.second.SerializeAsString());
  hosts.answer(measurement);
  EXPECT_TRUE(measurement.choice());
}

proto::NetworkReport report_of(const proto::NetworkStep& step) {
  proto::NetworkReport report;
  report.set_measurement(step.measurement());
  report.set_number(step.number());
  report.set_port(4000);
  return report;
}

TEST(NetworkMeasurement, IgnoresAReportOfAnotherMeasurementOrStep) {
  SimulatedHosts hosts = hosts_in_one_network(2);
  NetworkMeasurement measurement = hosts.measurement();
  proto::NetworkReport old = report_of(hosts.sent.front().second);
  old.set_measurement("another");
  proto::NetworkReport early = report_of(hosts.sent.front().second);
  early.set_number(2);
  for (const int host : {0, 1}) {
    measurement.said(host, old);
    measurement.said(host, early);
  }
  EXPECT_EQ(hosts.sent.size(), 2U) << "the first step continues";
}

TEST(NetworkMeasurement, SaysWhyAHostCannotTakePart) {
  SimulatedHosts hosts = hosts_in_one_network(2);
  NetworkMeasurement measurement = hosts.measurement();
  proto::NetworkReport report = report_of(hosts.sent.front().second);
  report.set_problem("no descriptor is left\nforged");
  measurement.said(1, report);
  EXPECT_EQ(measurement.choice()->text,
            "host host1 cannot take part in the measurement: no descriptor is left forged");
}

TEST(NetworkMeasurement, RefusesAReportOfMoreResultsThanTests) {
  SimulatedHosts hosts = hosts_in_one_network(2);
  NetworkMeasurement measurement = hosts.measurement();
  proto::NetworkReport report = report_of(hosts.sent.front().second);
  report.add_results();
  measurement.said(0, report);
  EXPECT_EQ(measurement.choice()->text, "host host0: its agent's answer is incomplete");
}

TEST(HostsToTry, IncludeAllOtherHostsIfThereAreFew) {
  EXPECT_THAT(tried_by(1, 4), ElementsAre(0, 2, 3));
  EXPECT_EQ(tried_by(5, kAllPairs).size(), 63U);
}

TEST(HostsToTry, IncludeOnlyNeighboursAndTheFirstHostIfThereAreMany) {
  EXPECT_THAT(tried_by(500, 1'000), UnorderedElementsAre(0, 499, 501));
  EXPECT_THAT(tried_by(999, 1'000), UnorderedElementsAre(0, 998));
  EXPECT_EQ(tried_by(0, 1'000).size(), 999U);
}

TEST(NetworkMeasurement, MeasuresAThousandHostsWithAFewTestsEach) {
  SimulatedHosts hosts = hosts_in_one_network(1'000);
  EXPECT_EQ(hosts.measured().address, std::vector<int>(1'000, 0));
  EXPECT_EQ(hosts.transfers, 1'000);
  EXPECT_EQ(hosts.most_tests, 3);
}

TEST(NetworkMeasurement, MeasuresAllPairsOfHostsForACheck) {
  SimulatedHosts hosts = hosts_in_one_network(5);
  NetworkMeasurement measurement = hosts.measurement("", NetworkMeasurement::Pairs::kAll);
  hosts.answer(measurement);
  ASSERT_TRUE(measurement.choice());
  const auto pairs = measurement.pairs();
  ASSERT_EQ(pairs.size(), 20U);
  for (const proto::CheckPair& pair : pairs) {
    EXPECT_NE(pair.from(), pair.to());
    EXPECT_EQ(pair.bits_per_second(), 1e9);
    EXPECT_EQ(pair.error(), "");
  }
}

TEST(NetworkMeasurement, MeasuresAllPairsEvenOverANetworkUsedBefore) {
  SimulatedHosts hosts = hosts_in_one_network(2);
  for (NetworkHost& host : hosts.hosts) host.earlier = host.addresses.front().address;
  NetworkMeasurement measurement = hosts.measurement("", NetworkMeasurement::Pairs::kAll);
  hosts.answer(measurement);
  EXPECT_EQ(measurement.pairs().size(), 2U);
}

TEST(NetworkMeasurement, IgnoresASingleSlowTransferOfAPair) {
  SimulatedHosts hosts = hosts_in_one_network(2);
  hosts.stumbles_at = 3;  // after the transfers that decide the choice
  NetworkMeasurement measurement = hosts.measurement("", NetworkMeasurement::Pairs::kAll);
  hosts.answer(measurement);
  for (const proto::CheckPair& pair : measurement.pairs()) {
    EXPECT_EQ(pair.bits_per_second(), 1e9);
  }
}

TEST(NetworkMeasurement, ReportsWhichPairsOfACheckDoNotConnect) {
  SimulatedHosts hosts = hosts_in_one_network(3);
  hosts.cut("10.0.0.1", "10.0.0.3");
  NetworkMeasurement measurement = hosts.measurement("", NetworkMeasurement::Pairs::kAll);
  hosts.answer(measurement);
  std::vector<std::string> broken;
  for (const proto::CheckPair& pair : measurement.pairs()) {
    if (!pair.error().empty()) broken.push_back(pair.from() + "-" + pair.to());
  }
  EXPECT_THAT(broken, ElementsAre("host0-host2"));
}

}  // namespace
}  // namespace pfc
