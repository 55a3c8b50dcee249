#include "coordinator/network/network_watch.h"

#include <algorithm>
#include <utility>

#include "common/network_address.h"

namespace pfc {

void NetworkWatch::measure() {
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
  const auto pairs =
      cluster_.run.job.check ? NetworkMeasurement::Pairs::kAll : NetworkMeasurement::Pairs::kSome;
  measurement_.emplace(std::move(hosts), cluster_.options.network, send, Clock::now(), pairs);
  update();
}

std::optional<int> NetworkWatch::measured_number(const std::string& host) const {
  const auto place = std::ranges::find_if(
      measured_, [&](std::size_t i) { return cluster_.state.hosts[i].name == host; });
  if (place == measured_.end()) return {};
  return static_cast<int>(place - measured_.begin());
}

void NetworkWatch::said(const std::string& host, const proto::NetworkReport& report) {
  if (!measurement_) return;
  const auto number = measured_number(host);
  if (!number) return;
  measurement_->said(*number, report);
  update();
  cluster_.advance();
}

void NetworkWatch::clear() {
  cluster_.state.network = {};
  measurement_.reset();
  measured_.clear();
}

void NetworkWatch::repeat(const std::string& host) {
  const auto number = measured_number(host);
  if (measurement_ && number) measurement_->repeat(*number);
}

void NetworkWatch::postpone(Clock::duration gap) {
  if (measurement_) measurement_->postpone(gap);
}

void NetworkWatch::update() {
  if (!measurement_) return;
  measurement_->expire(Clock::now());
  if (!measurement_->choice()) return;
  const NetworkChoice choice = *measurement_->choice();
  const std::vector<NetworkHost> measured = measurement_->hosts();
  if (cluster_.run.job.check) pairs_(measurement_->pairs());
  measurement_.reset();
  NetworkState& network = cluster_.state.network;
  network.ended_at = Clock::now();
  network.failed = choice.address.empty();
  network.text = choice.text;
  network.apart.clear();
  for (const int host : choice.apart) {
    network.apart.push_back(measured.at(static_cast<std::size_t>(host)).name);
  }
  if (network.failed) return;
  cluster_.terminal.note(choice.text);
  for (std::size_t host = 0; host < choice.address.size(); ++host) {
    HostState& known = cluster_.state.hosts[measured_[host]];
    HostAddress address = measured[host].addresses[static_cast<std::size_t>(choice.address[host])];
    const std::string before = peer_address(known);
    known.chosen = std::move(address);
    if (known.workers > 0 && peer_address(known) != before) network.changed = true;
  }
}

void NetworkWatch::set_local_address() {
  std::vector<HostState>& hosts = cluster_.state.hosts;
  const auto local = std::ranges::find(hosts, true, &HostState::local);
  const auto remote = std::ranges::find(hosts, false, &HostState::local);
  if (local == hosts.end() || remote == hosts.end()) return;
  local->address = address_towards(remote->address);  // numeric, so no name is resolved
}

}  // namespace pfc
