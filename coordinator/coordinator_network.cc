// The coordinator's part for the network between its hosts.
#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"

namespace pfc {

void Coordinator::measure_network() {
  set_local_address();
  std::vector<NetworkHost> hosts;
  measured_.clear();
  for (std::size_t i = 0; i < cluster_.state.hosts.size(); ++i) {
    const HostState& host = cluster_.state.hosts[i];
    if (cluster_.state.network.agents[i].empty()) continue;
    measured_.push_back(i);
    hosts.push_back({.name = host.name,
                     .addresses = host.addresses,
                     .connection = host.address,
                     .earlier = host.chosen ? host.chosen->address : ""});
  }
  const auto send = [this](int host, const proto::NetworkStep& step) {
    const std::size_t place = measured_.at(static_cast<std::size_t>(host));
    proto::AgentCommand command;  // repeated when the agent reconnects
    *command.mutable_network() = step;
    cluster_.links.send(cluster_.state.hosts[place].name, std::move(command));
  };
  const auto pairs = check_ ? NetworkMeasurement::Pairs::kAll : NetworkMeasurement::Pairs::kSome;
  measurement_.emplace(std::move(hosts), cluster_.options.network, send, Clock::now(), pairs);
  see_measurement();
}

std::optional<int> Coordinator::measured_number(const std::string& host) const {
  const auto place = std::ranges::find_if(
      measured_, [&](std::size_t i) { return cluster_.state.hosts[i].name == host; });
  if (place == measured_.end()) return {};
  return static_cast<int>(place - measured_.begin());
}

void Coordinator::network_said(const std::string& host, const proto::NetworkReport& report) {
  if (!measurement_) return;
  const auto number = measured_number(host);
  if (!number) return;
  measurement_->said(*number, report);
  see_measurement();
  advance();
}

void Coordinator::see_measurement() {
  if (!measurement_) return;
  measurement_->expire(Clock::now());
  if (!measurement_->choice()) return;
  const NetworkChoice choice = *measurement_->choice();
  const std::vector<NetworkHost> measured = measurement_->hosts();
  if (check_) check_->set_pairs(measurement_->pairs());
  measurement_.reset();
  cluster_.state.network.ended_at = Clock::now();
  cluster_.state.network.failed = choice.address.empty();
  cluster_.state.network.text = choice.text;
  cluster_.state.network.apart.clear();
  for (const int host : choice.apart) {
    cluster_.state.network.apart.push_back(measured.at(static_cast<std::size_t>(host)).name);
  }
  if (cluster_.state.network.failed) return;
  cluster_.terminal.note(choice.text);
  for (std::size_t host = 0; host < choice.address.size(); ++host) {
    HostState& known = cluster_.state.hosts[measured_[host]];
    HostAddress address = measured[host].addresses[static_cast<std::size_t>(choice.address[host])];
    const std::string before = peer_address(known);
    known.chosen = std::move(address);
    if (known.workers > 0 && peer_address(known) != before) cluster_.state.network.changed = true;
  }
}

}  // namespace pfc
