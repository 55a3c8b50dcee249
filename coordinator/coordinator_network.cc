// The coordinator's part for the network between its hosts.
#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"

namespace pfc {

void Coordinator::measure_network() {
  set_local_address();
  std::vector<NetworkHost> hosts;
  measured_.clear();
  for (std::size_t i = 0; i < state_.hosts.size(); ++i) {
    const HostState& host = state_.hosts[i];
    if (state_.network.agents[i].empty()) continue;
    measured_.push_back(i);
    hosts.push_back({.name = host.name,
                     .addresses = host.addresses,
                     .connection = host.address,
                     .earlier = host.chosen ? host.chosen->address : ""});
  }
  const auto send = [this](int host, const proto::NetworkStep& step) {
    const std::size_t place = measured_.at(static_cast<std::size_t>(host));
    const auto link = agents_.find(state_.hosts[place].name);
    if (link == agents_.end()) return;  // repeated when the agent reconnects
    proto::AgentCommand command;
    command.set_job_id(state_.job.id);
    *command.mutable_network() = step;
    link->second->send(std::move(command));
  };
  const auto pairs =
      run_.check ? NetworkMeasurement::Pairs::kAll : NetworkMeasurement::Pairs::kSome;
  measurement_.emplace(std::move(hosts), options_.network, send, Clock::now(), pairs);
  see_measurement();
}

std::optional<int> Coordinator::measured_number(const std::string& host) const {
  const auto place =
      std::ranges::find_if(measured_, [&](std::size_t i) { return state_.hosts[i].name == host; });
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
  if (run_.check) run_.check->set_pairs(measurement_->pairs());
  measurement_.reset();
  state_.network.ended_at = Clock::now();
  state_.network.failed = choice.address.empty();
  state_.network.text = choice.text;
  state_.network.apart.clear();
  for (const int host : choice.apart) {
    state_.network.apart.push_back(measured.at(static_cast<std::size_t>(host)).name);
  }
  if (state_.network.failed) return;
  terminal_.note(choice.text);
  for (std::size_t host = 0; host < choice.address.size(); ++host) {
    HostState& known = state_.hosts[measured_[host]];
    HostAddress address = measured[host].addresses[static_cast<std::size_t>(choice.address[host])];
    const std::string before = peer_address(known);
    known.chosen = std::move(address);
    if (known.workers > 0 && peer_address(known) != before) state_.network.changed = true;
  }
}

}  // namespace pfc
