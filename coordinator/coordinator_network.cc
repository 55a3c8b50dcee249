// What the coordinator does about the network between its hosts.
#include <utility>

#include "coordinator/coordinator.h"

namespace pfc {

void Coordinator::measure_network() {
  set_local_address();
  std::vector<NetworkHost> hosts;
  for (const HostState& host : state_.hosts) {
    hosts.push_back({.name = host.name,
                     .addresses = host.addresses,
                     .connection = host.address,
                     .earlier = host.chosen ? host.chosen->address : ""});
  }
  const auto send = [this](int host, const proto::NetworkStep& step) {
    const auto link = agents_.find(state_.hosts[static_cast<std::size_t>(host)].name);
    if (link == agents_.end()) return;  // repeated when it has connected again
    proto::AgentCommand command;
    command.set_job_id(state_.job.id);
    *command.mutable_network() = step;
    link->second->send(std::move(command));
  };
  measurement_.emplace(std::move(hosts), options_.network, send, Clock::now());
  see_measurement();
}

void Coordinator::network_said(const std::string& host, const proto::NetworkReport& report) {
  if (!measurement_) return;
  const HostState* const known = find_host(state_, host);
  measurement_->said(static_cast<int>(known - state_.hosts.data()), report);
  see_measurement();
  advance();
}

void Coordinator::see_measurement() {
  if (!measurement_) return;
  measurement_->expire(Clock::now());
  if (!measurement_->choice()) return;
  const NetworkChoice choice = *measurement_->choice();
  const std::vector<NetworkHost> measured = measurement_->hosts();
  measurement_.reset();
  state_.network.ended_at = Clock::now();
  state_.network.failed = choice.address.empty();
  state_.network.text = choice.text;
  if (state_.network.failed) return;
  terminal_.note(choice.text);
  for (std::size_t host = 0; host < choice.address.size(); ++host) {
    HostState& known = state_.hosts[host];
    HostAddress address = measured[host].addresses[static_cast<std::size_t>(choice.address[host])];
    if (known.chosen && *known.chosen != address) state_.network.changed = true;
    known.chosen = std::move(address);
  }
}

}  // namespace pfc
