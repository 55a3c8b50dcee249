// Hosts with cables between them, and agents that reply to a measurement as real ones would.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/network/network_measurement.h"

namespace pfc::testing {

class SimulatedHosts {
 public:
  /// Adds a host. An address is written as "eth0 10.0.0.1/24".
  void host(const std::string& name, const std::vector<std::string>& addresses) {
    NetworkHost added{.name = name, .addresses = {}};
    for (const std::string& text : addresses) {
      const std::size_t space = text.find(' '), slash = text.find('/');
      added.addresses.push_back({.interface = text.substr(0, space),
                                 .address = text.substr(space + 1, slash - space - 1),
                                 .prefix = std::stoi(text.substr(slash + 1)),
                                 .mtu = 1500});
    }
    if (!added.addresses.empty()) added.connection = added.addresses.front().address;
    hosts.push_back(std::move(added));
  }

  /// Drops everything that one address sends to the other.
  void cut(const std::string& from, const std::string& to) { cuts_.insert({from, to}); }
  /// Sets the speed of this network; default 1 Gbit/s, 0: no data arrive.
  void speed(const std::string& network, double bits_per_second) {
    speeds_[network] = bits_per_second;
  }
  /// Connects different networks by routers.
  void routed() { routed_ = true; }
  void is_silent(int host) { silent_.insert(host); }

  [[nodiscard]] bool connects(const HostAddress& from, const HostAddress& to) const {
    if (is_v6(from) != is_v6(to) || cuts_.contains({from.address, to.address})) return false;
    return routed_ || network_of(from) == network_of(to);
  }

  NetworkMeasurement measurement(
      const std::string& wish = "",
      NetworkMeasurement::Pairs pairs = NetworkMeasurement::Pairs::kSome) {
    return {hosts, NetworkWish(wish),
            [this](int host, const proto::NetworkStep& step) { sent.emplace_back(host, step); },
            now, pairs};
  }

  /// Lets the agents reply until there are no more steps.
  void answer(NetworkMeasurement& measurement) {
    while (!sent.empty()) {
      const auto [host, step] = sent.front();
      sent.pop_front();
      if (step.number() == 0) told_end.insert(host);
      if (host != 0) most_tests = std::max(most_tests, step.tests_size());
      if (step.number() > 0 && !silent_.contains(host)) measurement.said(host, report(step));
    }
  }

  NetworkChoice measured(const std::string& wish = "") {
    NetworkMeasurement measurement = this->measurement(wish);
    answer(measurement);
    EXPECT_TRUE(measurement.choice().has_value());
    return measurement.choice().value_or(NetworkChoice());
  }

  /// Returns the chosen addresses.
  std::vector<std::string> chosen(const std::string& wish = "") {
    const NetworkChoice choice = measured(wish);
    EXPECT_FALSE(choice.address.empty()) << choice.text;
    std::vector<std::string> addresses;
    for (std::size_t host = 0; host < choice.address.size(); ++host) {
      addresses.push_back(
          hosts[host].addresses[static_cast<std::size_t>(choice.address[host])].address);
    }
    return addresses;
  }

  std::vector<NetworkHost> hosts;
  std::deque<std::pair<int, proto::NetworkStep>> sent;
  TimePoint now{std::chrono::seconds{1000}};
  std::set<int> told_end;  ///< hosts notified of the measurement's end
  int transfers = 0;       ///< number of transfers
  int stumbles_at = 0;     ///< this transfer is very slow because its host is busy; 0: none
  int most_tests = 0;      ///< most tests of one host in one step, not counting the first host

 private:
  const HostAddress& find(const std::string& address) const {
    for (const NetworkHost& host : hosts) {
      for (const HostAddress& each : host.addresses) {
        if (each.address == address) return each;
      }
    }
    throw std::logic_error("nobody has " + address);
  }

  proto::NetworkReport report(const proto::NetworkStep& step) {
    proto::NetworkReport report;
    report.set_measurement(step.measurement());
    report.set_number(step.number());
    report.set_port(4000 + step.host());
    for (const proto::NetworkTest& test : step.tests()) {
      EXPECT_EQ(test.port(), 4000 + test.to_host());
      proto::NetworkResult& result = *report.add_results();
      const HostAddress &from = find(test.from()), &to = find(test.to());
      const auto known = speeds_.find(network_of(from));
      const double speed = known == speeds_.end() ? 1e9 : known->second;
      if (!connects(from, to)) result.set_error("Connection timed out");
      if (!test.transfer()) continue;
      transfers += 1;
      if (stumbles_at == transfers) {
        result.set_bits_per_second(1e3);
        continue;
      }
      if (speed == 0) result.set_error("Connection timed out");
      result.set_bits_per_second(speed);
    }
    return report;
  }

  std::set<std::pair<std::string, std::string>> cuts_;
  std::map<std::string, double> speeds_;
  std::set<int> silent_;
  bool routed_ = false;
};

}  // namespace pfc::testing
