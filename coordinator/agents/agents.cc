#include "coordinator/agents/agents.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <utility>

#include "common/counted.h"
#include "common/machine/cores.h"
#include "common/network_address.h"
#include "common/one_line.h"
#include "common/version.h"
#include "coordinator/agents/fault_target.h"

namespace pfc {
namespace {

constexpr std::chrono::seconds kFaultTimeout{5};

/// Returns a message: how many workers a host gets if the user gave no number, and why.
std::string slots_text(const HostState& host, DeviceChoice device) {
  const std::string why = device == DeviceChoice::kCpu ? "device \"cpu\""
                          : host.no_gpu.empty()        ? "one per GPU"
                                                       : host.no_gpu;
  return "host " + host.name + ": " + counted(host.slots, "worker") + " (" + why + ")";
}

/// Returns the first label of a host name: "w" of "w.foo.net".
std::string short_name(const std::string& host) { return host.substr(0, host.find('.')); }

}  // namespace

Agents::Agents(Cluster& cluster, Jobs& jobs, Takeover& takeover, Checks& checks,
               NetworkWatch& network, Workers& workers)
    : cluster_(cluster),
      jobs_(jobs),
      takeover_(takeover),
      checks_(checks),
      network_(network),
      workers_(workers),
      fault_requests_({.timeout = kFaultTimeout,
                       .too_many = {.kind = Refusal::Kind::kOldGeneration,
                                    .message = std::to_string(FaultRequests::kMost) +
                                               " faults are waiting for their agents; try again "
                                               "later"},
                       .late = {.kind = Refusal::Kind::kTimeout,
                                .message = "its agent has not answered for " +
                                           std::to_string(kFaultTimeout.count()) + " s"}}) {}

void Agents::warn_of_threads(const HostState& host, int threads_asked_for) {
  const std::string text = oversubscription(threads_asked_for, host.slots, host.cores);
  if (!text.empty()) cluster_.terminal.note("host " + host.name + ": " + text, Severity::kWarning);
}

HostState* Agents::match(const std::string& given, const std::string& peer) const {
  const std::string name = lower_case(plain_address(given));  // ignoring case: RFC 4343
  for (HostState& host : cluster_.state.hosts) {
    if (lower_case(host.name) == name) return &host;
  }
  if (HostState* host = find_host(cluster_.state, peer)) return host;
  // A short name matches a long one if it is unique.
  HostState* found = nullptr;
  for (HostState& host : cluster_.state.hosts) {
    if (std::isdigit(static_cast<unsigned char>(host.name.front())) != 0) continue;
    const std::string listed = lower_case(host.name);
    if (listed != short_name(name) && short_name(listed) != name) continue;
    if (found != nullptr) return nullptr;
    found = &host;
  }
  return found;
}

std::optional<std::string> Agents::listed_host(const std::string& given,
                                               const std::string& peer) const {
  const HostState* const host = match(given, peer);
  return host == nullptr ? std::nullopt : std::optional(host->name);
}

std::optional<std::string> Agents::host_of_agent(const std::string& agent_id) const {
  const auto host = std::ranges::find(cluster_.state.hosts, agent_id, &HostState::agent_id);
  return host == cluster_.state.hosts.end() ? std::nullopt : std::optional(host->name);
}

std::optional<std::string> Agents::host_of_rank(Rank rank) const {
  const auto& workers = cluster_.state.job.current.workers;
  const auto number = static_cast<std::size_t>(rank);
  return number < workers.size() ? std::optional(workers[number].host) : std::nullopt;
}

std::optional<Refusal> Agents::add(const proto::AgentRegistration& registration,
                                   const std::string& peer, AgentLink& link) {
  if (cluster_.closed) return going_away();
  const auto refuse = [&](std::string message) {
    checks_.agent_refused(registration.host(), message);
    return Refusal{.kind = Refusal::Kind::kOldGeneration, .message = std::move(message)};
  };
  if (registration.version() != version()) {
    return refuse("host " + registration.host() + " runs pfc " + registration.version() +
                  ", the coordinator " + version() + ": install the same version");
  }
  HostState* const host = match(registration.host(), peer);
  if (host == nullptr) {
    return refuse(
        "host " + registration.host() + " (" + peer +
        ") is not in the coordinator's --hosts, or its short name matches several of them; "
        "start the agent with --host NAME, spelled as in --hosts");
  }
  const std::string own_name = lower_case(registration.host());
  const auto known = own_names_.find(host->name);
  if (host->registered && known != own_names_.end() && known->second != own_name &&
      host->agent_id != registration.agent_id() && lower_case(host->name) != own_name &&
      lower_case(host->name) == short_name(own_name)) {
    return refuse("host " + own_name + " (" + peer + ") matches " + host->name +
                  " in the coordinator's --hosts, but so does " + known->second +
                  ", which has registered; write the full names in --hosts");
  }
  if (is_own(*host) && registration.agent_id() != cluster_.options.local_agent_id) {
    return refuse("host " + host->name +
                  " is the coordinator's own host, whose agent the coordinator starts itself: no "
                  "other agent is needed here");
  }
  if (auto refusal = replace(*host, registration.agent_id(), peer)) {
    checks_.agent_refused(host->name, refusal->message);
    return *refusal;
  }
  const bool is_new = !host->registered || host->agent_id != registration.agent_id();
  if (is_new) checks_.agent_admitted({host->name, registration.host(), peer});
  cluster_.links.add_agent(host->name, link);
  own_names_[host->name] = own_name;
  host->peer = peer;
  // The local agent connects over loopback. The address of its host is set when all hosts are
  // registered, and stays if this agent registers again.
  if (!host->local || host->address.empty()) host->address = peer;
  const bool count_gpus = host->slots == 0;
  host_registered(*host, registration, cluster_.state.job.device, Clock::now());
  if (count_gpus) cluster_.terminal.note(slots_text(*host, cluster_.state.job.device));
  if (is_new) warn_of_threads(*host, registration.threads_asked_for());
  takeover_.save_soon();
  proto::AgentCommand welcome;
  welcome.mutable_registered()->set_host(host->name);
  welcome.mutable_registered()->set_coordinator_grace_ms(
      cluster_.options.coordinator_grace.count());
  cluster_.links.send(host->name, std::move(welcome));
  const auto present = [this] {
    return std::pair(cluster_.state.job.id, cluster_.state.job.current.number);
  };
  const auto before = present();
  cluster_.advance();  // a job or generation may have waited for this host
  if (present() == before) send_desired(host->name);
  network_.repeat(host->name);
  return {};
}

std::optional<Refusal> Agents::replace(HostState& host, const std::string& agent_id,
                                       const std::string& peer) {
  const auto refuse = [](std::string message) {
    return Refusal{.kind = Refusal::Kind::kOldGeneration, .message = std::move(message)};
  };
  const std::string taken_over =
      "another pfc-agent was started on host " + host.name + " later, and has replaced this one";
  if (std::ranges::count(host.former_agents, agent_id) > 0) return refuse(taken_over);
  const bool is_another = !host.agent_id.empty() && host.agent_id != agent_id;
  const bool replaces = host.registered && is_another;
  if (replaces && cluster_.links.has_agent(host.name) && peer != host.peer) {
    return refuse("host " + host.name + " already has an agent, which connects from " + host.peer +
                  "; this one connects from " + peer +
                  ": end one of the two, or give each its own --host");
  }
  cluster_.links.close_agent(host.name, replaces
                                            ? refuse(taken_over)
                                            : Refusal{.kind = Refusal::Kind::kUnavailable,
                                                      .message = "the agent has connected again"});
  if (is_another) agent_left_behind(host, host.agent_id);
  if (!replaces) return {};
  cluster_.terminal.note("host " + host.name + ": another pfc-agent has taken over");
  agent_replaced(cluster_.state, host, Clock::now());
  takeover_.save_now();  // before the agent gets the request for new processes
  workers_.members_changed();
  return {};
}

void Agents::said(const std::string& host, const proto::AgentMessage& message) {
  HostState* const known = find_host(cluster_.state, host);
  if (known == nullptr) return;
  known->last_heard = Clock::now();
  if (!cluster_.closed) worker_event(*known, message);
}

void Agents::worker_event(const HostState& host, const proto::AgentMessage& message) {
  if (message.has_log_chunk()) return jobs_.log_requests().answered(host.name, message.log_chunk());
  if (message.has_fault()) return fault_requests_.answered(host.name, message.fault());
  if (message.has_network()) return network_.said(host.name, message.network());
  // Reports about processes that are no longer wanted are ignored.
  const auto teller = [&](const auto& event) {
    return find_worker(cluster_.state, host, event.slot(), event.incarnation());
  };
  if (message.has_output()) {
    const WorkerState* const worker = teller(message.output());
    if (worker == nullptr) return;
    for (const std::string& line : message.output().lines()) {
      cluster_.history.add_output(worker->rank, line);
      cluster_.terminal.worker_line(worker->rank, message.output().is_stderr(), line);
    }
  } else if (message.has_started()) {
    WorkerState* const worker = teller(message.started());
    if (worker == nullptr) return;
    worker->pid = static_cast<pid_t>(message.started().pid());
    takeover_.save_soon();
  } else if (message.has_described()) {
    WorkerState* const worker = teller(message.described());
    if (worker != nullptr) workers_.described(*worker, message.described().text());
  } else if (message.has_leaving()) {
    leaves(host.name, message.leaving());
  } else if (message.has_exited()) {
    WorkerState* const worker = teller(message.exited());
    if (worker != nullptr) worker_ended(*worker, message.exited());
  }
}

// If no worker runs there is nothing to save, and the host counts as not registered.
void Agents::leaves(const std::string& host, const proto::HostLeaving& leaving) {
  HostState& known = *find_host(cluster_.state, host);
  if (known.workers > 0) return drain(host, leaving);
  if (!std::exchange(known.registered, false)) return;
  cluster_.terminal.note("host " + host + ", where no worker runs, is leaving (" +
                         one_line(leaving.reason(), 64) + ")");
  takeover_.save_now();
  send_desired(host);  // the agent waits for this message
  if (!cluster_.state.job.id.empty()) cluster_.advance();
}

bool Agents::has_host(const std::string& name) const {
  return find_host(cluster_.state, name) != nullptr;
}

void Agents::drain(const std::string& host, const proto::HostLeaving& leaving) {
  HostState* const known = find_host(cluster_.state, host);
  if (cluster_.closed || known == nullptr) return;
  constexpr std::int64_t kLongest = std::int64_t{365} * 24 * 3600 * 1000;
  const std::chrono::milliseconds within{std::clamp<std::int64_t>(leaving.grace_ms(), 0, kLongest)};
  host_leaves(*known, one_line(leaving.reason(), 64), within, Clock::now());
  takeover_.save_now();
  if (!cluster_.state.job.id.empty()) cluster_.advance();
}

void Agents::inject_fault(const proto::InjectFaultRequest& request,
                          const Answer<proto::InjectFaultReply>& answer) {
  if (cluster_.closed) return answer(going_away());
  const auto found =
      fault_target(cluster_.state, request,
                   cluster_.options.is_service || cluster_.options.local_agent_id.empty());
  if (const auto* refusal = std::get_if<Refusal>(&found)) return answer(*refusal);
  const auto& target = std::get<FaultTarget>(found);
  if (!cluster_.links.has_agent(target.host)) {
    return answer(Refusal{.kind = Refusal::Kind::kOldGeneration,
                          .message = "host " + target.host + " has no connected agent"});
  }
  const std::string what = "pfcctl chaos " + to_text(target);
  const std::int64_t number = fault_requests_.wait(
      target.host,
      [this, answer, what, host = target.host, name = target.name,
       asked = request.only_ask()](const std::variant<proto::FaultReport, Refusal>& result) {
        if (const auto* refusal = std::get_if<Refusal>(&result)) return answer(*refusal);
        const std::string& problem = std::get<proto::FaultReport>(result).problem();
        if (!problem.empty()) {
          return answer(Refusal{.kind = Refusal::Kind::kOldGeneration,
                                .message = "host " + host + ": " + one_line(problem, 400)});
        }
        if (!asked) {
          cluster_.terminal.note(what, Severity::kWarning);
          cluster_.history.tell(ClusterEvent::Kind::kRequest, Severity::kWarning, what);
        }
        proto::InjectFaultReply reply;
        reply.set_host(host);
        reply.set_target(name);
        answer(std::move(reply));
      },
      Clock::now());
  if (number == 0) return;
  proto::AgentCommand command;
  *command.mutable_fault() = target.fault;
  command.mutable_fault()->set_request(number);
  cluster_.links.send(target.host, std::move(command));
}

void Agents::worker_ended(WorkerState& worker, const proto::WorkerExited& exited) {
  takeover_.save_soon();
  const bool may_have_saved = !worker.report || worker.report->outcome == proto::OUTCOME_STOPPED;
  if (exited.coordinator_lost() && !worker.exit && may_have_saved) {
    // The agent ended it after --coordinator-grace, which is not a failure.
    worker.exit = ProcessExit{.code = exited.code(), .signal = exited.signal()};
    generation_lost(cluster_.state);
    return cluster_.advance();
  }
  if (!exited.not_started().empty()) {
    worker_not_started(cluster_.state, worker, exited.not_started(), Clock::now());
    return cluster_.advance();
  }
  const ProcessExit exit{.code = exited.code(), .signal = exited.signal()};
  const std::string name = name_of(worker);
  if (worker_exited(cluster_.state, worker, exit,
                    {exited.last_stderr().begin(), exited.last_stderr().end()}, Clock::now())) {
    cluster_.terminal.note(name + ": " + describe(exit) + "; a new process replaces it",
                           Severity::kWarning);
    takeover_.save_now();  // before the agent gets the request for the new process
    send_desired(worker.host);
  }
  cluster_.advance();
}

void Agents::link_closed(const std::string& host, AgentLink& link) {
  // The host stays registered until it is silent for too long, because its agent may reconnect.
  if (!cluster_.links.remove_agent(host, link)) return;
  jobs_.log_requests().host_gone(host);
  fault_requests_.host_gone(host);
}

bool Agents::local_agent_ended(const std::optional<ProcessExit>& exit) {
  const bool has_given_up = !exit || Clock::now() < excused_until_;
  if (has_given_up && !cluster_.over && !cluster_.closed && !cluster_.state.job.id.empty() &&
      !cluster_.state.job.stop) {
    cluster_.terminal.note("this host's pfc-agent has ended with its workers, and is started again",
                           Severity::kWarning);
    takeover_.lose_local_agent(Clock::now());
    takeover_.save_now();
    cluster_.advance();
    return true;
  }
  const bool told = exit && exit->signal == 0 && exit->code != 0;
  local_agent_failed("pfc-agent " + (exit ? describe(*exit) : "has ended") +
                         (told ? "; its last message says why" : ""),
                     cluster_.state.job.current.number == 0);
  return false;
}

void Agents::local_agent_failed(const std::string& what, bool at_start) {
  if (cluster_.over) return;  // the agent ends with the coordinator
  takeover_.save_soon();
  for (HostState& host : cluster_.state.hosts) {
    if (!host.local) continue;
    if (!lose_agent_for_good(cluster_.state, host, cluster_.run.config.elastic, one_line(what),
                             at_start, Clock::now())) {
      cluster_.terminal.note("host " + host.name + ": " + one_line(what), Severity::kWarning);
    }
  }
  cluster_.advance();
}

void Agents::send_desired() const {
  for (const HostState& host : cluster_.state.hosts) send_desired(host.name);
}

void Agents::send_desired(const std::string& host) const {
  proto::AgentCommand command;
  // Without a job there is nothing to add.
  if (cluster_.state.job.id.empty()) return cluster_.links.send(host, std::move(command));
  proto::DesiredSlots* const desired = command.mutable_desired();
  for (const WorkerState& worker : cluster_.state.job.current.workers) {
    if (worker.host != host) continue;
    proto::DesiredSlots::Slot* slot = desired->add_slots();
    slot->set_slot(worker.slot);
    slot->set_incarnation(worker.incarnation);
    slot->set_rank(worker.rank);
    desired->set_places(find_host(cluster_.state, host)->slots);
    // An ended worker is not started again, even by an agent that was restarted since.
    slot->set_wish(worker.exit || cluster_.state.job.killed_at ? proto::DesiredSlots::KILL
                   : cluster_.state.job.terminated_at          ? proto::DesiredSlots::TERMINATE
                                                               : proto::DesiredSlots::RUN);
  }
  // Longer than the coordinator's own limit, so that the coordinator's message, which names the
  // missing workers, comes first.
  const std::chrono::milliseconds patience = cluster_.run.config.limits.start + kJoinSlack;
  desired->set_join_timeout_ms(patience.count());
  desired->set_collective_timeout_ms(cluster_.options.collective_timeout.count());
  cluster_.links.send(host, std::move(command));
}

void Agents::must_register_again(const std::string& host) const {
  cluster_.links.close_agent(host,
                             {.kind = Refusal::Kind::kUnavailable,
                              .message = "it was silent for too long and must register again"});
}

void Agents::release_silent(TimePoint now) {
  const auto silence = cluster_.options.rendezvous.limits.silence;
  for (const std::string& host : release_silent_hosts(cluster_.state, silence, now)) {
    must_register_again(host);
  }
}

void Agents::release_once() {
  for (HostState& host : cluster_.state.hosts) {
    if (!host.registered || !host.once || is_own(host)) continue;
    host.registered = false;
    cluster_.links.end_agent(host.name);
  }
}

}  // namespace pfc
