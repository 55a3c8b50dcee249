#include "coordinator/agents/fault_target.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "common/one_line.h"

namespace pfc {
namespace {

Refusal invalid(std::string why) {
  return {.kind = Refusal::Kind::kInvalid, .message = std::move(why)};
}

bool is_of_worker(proto::FaultKind kind) {
  return kind == proto::FAULT_KILL_WORKER || kind == proto::FAULT_STOP_WORKER;
}

/// Returns the addresses of the other hosts. Excludes addresses that this host also has, such as
/// those of loopback or bridge interfaces.
std::set<std::string> addresses_of_others(const ClusterState& state, const std::string& host) {
  std::set<std::string> others, own;
  for (const HostState& each : state.hosts) {
    std::set<std::string>& to = each.name == host ? own : others;
    for (const HostAddress& address : each.addresses) to.insert(address.address);
    if (!each.address.empty()) to.insert(each.address);
  }
  std::erase_if(others, [&](const std::string& address) { return own.contains(address); });
  return others;
}

std::string fault_time_text(std::int64_t ms) {
  std::ostringstream text;
  text << static_cast<double>(ms) / 1000 << " s";
  return text.str();
}

}  // namespace

std::variant<FaultTarget, Refusal> fault_target(const ClusterState& state,
                                                const proto::InjectFaultRequest& request,
                                                bool agent_comes_back) {
  FaultTarget target{.host = request.host(), .name = "host " + request.host(), .fault = {}};
  target.fault.set_kind(request.kind());
  target.fault.set_lasts_ms(request.lasts_ms());
  target.fault.set_only_ask(request.only_ask());
  if (is_of_worker(request.kind()) && !(request.only_ask() && !request.host().empty())) {
    const auto& workers = state.job.current.workers;
    const auto worker = std::ranges::find(workers, request.rank(), &WorkerState::rank);
    if (worker == workers.end() || worker->exit) {
      return invalid("rank " + std::to_string(request.rank()) +
                     (worker == workers.end() ? " does not exist in this generation, which has " +
                                                    std::to_string(workers.size()) + " workers"
                                              : " has ended already"));
    }
    target.host = worker->host;
    target.name = name_of(*worker);
    target.fault.set_slot(worker->slot);
    target.fault.set_incarnation(worker->incarnation);
    return target;
  }
  const auto host = std::ranges::find(state.hosts, request.host(), &HostState::name);
  if (host == state.hosts.end()) {
    return invalid("unknown host " + one_line(request.host(), 64) +
                   "; give a host that pfcctl status lists");
  }
  if (request.kind() == proto::FAULT_KILL_AGENT && host->local && !agent_comes_back) {
    return invalid("host " + host->name +
                   " is the coordinator's own host, and its agent is not restarted: the job would "
                   "end without it");
  }
  if (request.kind() == proto::FAULT_PARTITION) {
    for (const std::string& address : addresses_of_others(state, host->name)) {
      target.fault.add_addresses(address);
    }
  }
  return target;
}

std::string to_text(const FaultTarget& target) {
  const std::string time = fault_time_text(target.fault.lasts_ms());
  switch (target.fault.kind()) {
    case proto::FAULT_KILL_WORKER:
      return "kills " + target.name;
    case proto::FAULT_STOP_WORKER:
      return "stops " + target.name + " for " + time;
    case proto::FAULT_PARTITION:
      return "cuts " + target.name + " off for " + time;
    case proto::FAULT_KILL_AGENT:
      return "kills the agent of " + target.name;
    default:
      return "ends the faults on " + target.name;
  }
}

}  // namespace pfc
