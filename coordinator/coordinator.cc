#include "coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/counted.h"
#include "common/one_line.h"
#include "common/version.h"
#include "coordinator/report/progress_limits.h"
#include "coordinator/report/status.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kJoinSlack{10'000};

/// When a wait ends. None is longer than an hour, or than the start may take, whatever a request
/// says.
TimePoint deadline_of(std::int64_t timeout_ms, const HealthLimits& limits, TimePoint now) {
  const milliseconds longest =
      std::max<milliseconds>(std::chrono::hours{1}, limits.start + 2 * kJoinSlack);
  return now + std::clamp(milliseconds{timeout_ms}, milliseconds{0}, longest);
}

Refusal going_away() {
  return {.kind = Refusal::Kind::kUnavailable, .message = "the coordinator is ending"};
}

/// How many workers a host gets whose number was not given, and why.
std::string slots_text(const HostState& host, DeviceChoice device) {
  const std::string why = device == DeviceChoice::kCpu ? "device \"cpu\""
                          : host.no_gpu.empty()        ? "one a GPU"
                                                       : host.no_gpu;
  return "host " + host.name + ": " + counted(host.slots, "worker") + " (" + why + ")";
}

Refusal unknown_worker(const proto::WorkerId& id) {
  return {.kind = Refusal::Kind::kOldGeneration,
          .message = "slot " + std::to_string(id.slot()) + ", incarnation " +
                     std::to_string(id.incarnation()) +
                     " of this agent is not wanted: another worker or another agent is in its "
                     "place"};
}

}  // namespace

Coordinator::Coordinator(boost::asio::io_context& loop, CoordinatorOptions options,
                         Terminal& terminal, Finished finished)
    : timer_(loop),
      options_(std::move(options)),
      terminal_(terminal),
      finished_(std::move(finished)) {
  state_.job_id = options_.job_id;
  state_.started_at = Clock::now();
  for (const HostSpec& host : options_.hosts) {
    state_.hosts.push_back(
        {.name = host.name, .slots = host.slots, .local = host.local, .resolves = host.resolves});
  }
}

void Coordinator::start(const std::string& address) {
  state_.address = address;
  state_.started_at = Clock::now();
  tick();
}

void Coordinator::stop(const std::string& reason, bool urgent) {
  if (!state_.stop) {
    state_.stop = StopRequest{.reason = one_line(reason), .urgent = urgent, .at = Clock::now()};
  }
  state_.stop->urgent = state_.stop->urgent || urgent;
  advance();
}

void Coordinator::close() {
  closed_ = true;
  timer_.cancel();
  joins_.clear(going_away());
  values_.clear(going_away());
  for (const auto& [host, link] : std::exchange(agents_, {})) {
    proto::AgentCommand command;
    command.set_job_id(state_.job_id);
    command.mutable_shut_down();
    link->send(std::move(command));
    link->close(going_away());
  }
  for (const auto& [rank, link] : std::exchange(workers_, {})) link->close(going_away());
}

proto::StatusReply Coordinator::status() const {
  return make_status(state_, progress_, reason_, over_, Clock::now());
}

void Coordinator::tick() {
  timer_.expires_after(options_.tick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !closed_) tick();
  });
  values_.expire(Clock::now());
  joins_.update(state_, options_.job_json, Clock::now());
  advance();
}

void Coordinator::advance() {
  while (!over_ && !closed_) {
    const TimePoint now = Clock::now();
    const Decision decision = decide(state_, options_.rendezvous, now);
    const bool is_new = std::exchange(reason_, decision.reason) != decision.reason;
    // The start and the end of the job have lines of their own.
    const bool told = decision.action == Action::kStartGeneration ||
                      decision.action == Action::kFail || decision.action == Action::kFinish;
    if (is_new && !told) terminal_.note(reason_);
    if (decision.action == Action::kWait) return;
    apply(state_, decision, now);
    perform(decision);
  }
}

void Coordinator::perform(const Decision& decision) {
  switch (decision.action) {
    case Action::kWait:
    case Action::kFail:
      return;
    case Action::kStartGeneration:
      terminal_.note("generation " + std::to_string(state_.generation) + ": starting " +
                     counted(static_cast<long long>(decision.members.size()), "worker"));
      set_local_address();
      return send_desired();
    case Action::kAskToStop:
      return ask_workers_to_stop();
    case Action::kTerminate:
    case Action::kKill:
      return send_desired();
    case Action::kFinish:
      return finish_job();
  }
}

/// The agent of this machine connects through the loopback interface, which its peers cannot reach.
void Coordinator::set_local_address() {
  const auto local = std::find_if(state_.hosts.begin(), state_.hosts.end(),
                                  [](const HostState& host) { return host.local; });
  const auto remote = std::find_if(state_.hosts.begin(), state_.hosts.end(),
                                   [](const HostState& host) { return !host.local; });
  if (local == state_.hosts.end() || remote == state_.hosts.end()) return;
  local->address = address_towards(remote->address);  // a number, so that no name is looked up
}

void Coordinator::finish_job() {
  over_ = true;
  terminal_.clear_progress();
  // Workers report their failures here and do not print them. The verdict is one of these lines.
  const std::vector<std::string> failures = failure_lines(state_);
  if (failures.size() > 1) {
    for (const std::string& failure : failures) terminal_.note(failure, Severity::kWarning);
  }
  finished_(verdict(state_));
}

void Coordinator::send_desired() {
  for (const HostState& host : state_.hosts) send_desired(host.name);
}

void Coordinator::send_desired(const std::string& host) {
  const auto link = agents_.find(host);
  if (link == agents_.end()) return;  // sent when it has reconnected
  proto::AgentCommand command;
  command.set_job_id(state_.job_id);
  proto::DesiredSlots* const desired = command.mutable_desired();
  for (const WorkerState& worker : state_.workers) {
    if (worker.host != host) continue;
    proto::DesiredSlots::Slot* slot = desired->add_slots();
    slot->set_slot(worker.slot);
    slot->set_incarnation(worker.incarnation);
    // One that has ended stays ended, also for an agent that was started again since then.
    slot->set_wish(worker.exit || state_.killed_at ? proto::DesiredSlots::KILL
                   : state_.terminated_at          ? proto::DesiredSlots::TERMINATE
                                                   : proto::DesiredSlots::RUN);
  }
  // Longer than the coordinator's own limit, whose message names the workers that are missing.
  const milliseconds patience = options_.rendezvous.limits.start + kJoinSlack;
  desired->set_join_timeout_ms(patience.count());
  desired->set_collective_timeout_ms(options_.collective_timeout.count());
  link->second->send(std::move(command));
}

void Coordinator::ask_workers_to_stop() {
  proto::WorkerCommand command;
  command.set_stop(true);
  for (const auto& [rank, link] : workers_) link->send(command);
}

// Agents.

HostState* Coordinator::match_host(const std::string& name, const std::string& peer) {
  const auto short_name = [](const std::string& host) { return host.substr(0, host.find('.')); };
  if (HostState* host = find_host(state_, name)) return host;
  if (HostState* host = find_host(state_, peer)) return host;
  if (HostState* host = find_host(state_, short_name(name))) return host;
  const auto same_short_name =
      std::find_if(state_.hosts.begin(), state_.hosts.end(), [&](const HostState& each) {
        return !std::isdigit(static_cast<unsigned char>(each.name.front())) &&
               short_name(each.name) == name;
      });
  return same_short_name == state_.hosts.end() ? nullptr : &*same_short_name;
}

std::variant<Coordinator::Registered, Refusal> Coordinator::register_agent(
    const proto::AgentRegistration& registration, const std::string& peer, AgentLink& link) {
  if (closed_) return going_away();
  const auto refuse = [](std::string message) {
    return Refusal{.kind = Refusal::Kind::kOldGeneration, .message = std::move(message)};
  };
  if (registration.version() != version()) {
    return refuse("host " + registration.host() + " runs pfc " + registration.version() +
                  ", the coordinator " + version() + ": install the same version");
  }
  HostState* const host = match_host(registration.host(), peer);
  if (host == nullptr) {
    return refuse("host " + registration.host() + " (" + peer +
                  ") is not in the coordinator's --hosts; start the agent with --host NAME as it "
                  "is written there");
  }
  if (auto refusal = replace_agent(*host, registration.agent_id(), peer)) return *refusal;
  agents_[host->name] = &link;
  host->peer = peer;
  // That of this machine is set when all hosts are here; its agent may come back later.
  if (!host->local || host->address.empty()) host->address = peer;
  const bool count_gpus = host->slots == 0;
  host_registered(*host, registration, options_.rendezvous.device, Clock::now());
  if (count_gpus) terminal_.note(slots_text(*host, options_.rendezvous.device));
  proto::AgentCommand welcome;
  welcome.set_job_id(state_.job_id);
  welcome.mutable_registered()->set_host(host->name);
  link.send(std::move(welcome));
  send_desired(host->name);
  advance();
  return Registered{.host = host->name};
}

std::optional<Refusal> Coordinator::replace_agent(HostState& host, const std::string& agent_id,
                                                  const std::string& peer) {
  const auto refuse = [](std::string message) {
    return Refusal{.kind = Refusal::Kind::kOldGeneration, .message = std::move(message)};
  };
  const std::string taken_over = "another pfc-agent was started on host " + host.name +
                                 " later, and has taken it over from this one";
  if (std::ranges::count(host.former_agents, agent_id) > 0) return refuse(taken_over);
  const auto old = agents_.find(host.name);
  const bool replaces = host.registered && host.agent_id != agent_id;
  if (replaces && old != agents_.end() && peer != host.peer) {
    return refuse("host " + host.name + " has an agent already, which connects from " + host.peer +
                  ", and this one from " + peer +
                  ": end that one, or give each a --host of its own");
  }
  if (old != agents_.end()) {
    old->second->close(replaces ? refuse(taken_over)
                                : Refusal{.kind = Refusal::Kind::kUnavailable,
                                          .message = "it has connected again"});
  }
  if (!replaces) return {};
  terminal_.note("host " + host.name + ": another pfc-agent has taken over");
  agent_replaced(state_, host, Clock::now());
  return {};
}

void Coordinator::agent_said(const std::string& host, const proto::AgentMessage& message) {
  HostState* const known = find_host(state_, host);
  if (known == nullptr) return;
  known->last_heard = Clock::now();
  if (!closed_) worker_event(*known, message);
}

void Coordinator::worker_event(const HostState& host, const proto::AgentMessage& message) {
  // What an agent tells of a process that is not wanted any more is of no interest.
  const auto teller = [&](const auto& event) {
    return find_worker(state_, host, event.slot(), event.incarnation());
  };
  if (message.has_output()) {
    const WorkerState* const worker = teller(message.output());
    if (worker == nullptr) return;
    for (const std::string& line : message.output().lines()) {
      terminal_.worker_line(worker->rank, message.output().is_stderr(), line);
    }
  } else if (message.has_started()) {
    WorkerState* const worker = teller(message.started());
    if (worker != nullptr) worker->pid = static_cast<pid_t>(message.started().pid());
  } else if (message.has_exited()) {
    WorkerState* const worker = teller(message.exited());
    if (worker != nullptr) worker_ended(*worker, message.exited());
  }
}

void Coordinator::worker_ended(WorkerState& worker, const proto::WorkerExited& exited) {
  if (!exited.not_started().empty()) {
    worker_not_started(state_, worker, exited.not_started(), Clock::now());
  } else {
    worker_exited(state_, worker, {.code = exited.code(), .signal = exited.signal()},
                  {exited.last_stderr().begin(), exited.last_stderr().end()}, Clock::now());
  }
  advance();
}

void Coordinator::agent_link_closed(const std::string& host, AgentLink& link) {
  // The host keeps its lease until it has been silent for too long: its agent may reconnect.
  const auto found = agents_.find(host);
  if (found != agents_.end() && found->second == &link) agents_.erase(found);
}

void Coordinator::local_agent_ended(const ProcessExit& exit) {
  local_agent_failed("pfc-agent " + describe(exit), state_.generation == 0);
}

void Coordinator::local_agent_not_started(const std::string& why) { local_agent_failed(why, true); }

void Coordinator::local_agent_failed(const std::string& what, bool at_start) {
  for (const HostState& host : state_.hosts) {
    if (!host.local) continue;
    fail(state_, {.kind = Failure::Kind::kCrash,
                  .rank = {},
                  .who = "host " + host.name,
                  .what = one_line(what),
                  .at_start = at_start,
                  .at = Clock::now()});
    // Its workers have ended with it, and no agent is left to report how.
    for (WorkerState& worker : state_.workers) {
      if (worker.host == host.name && !worker.exit) worker.exit = ProcessExit{.signal = SIGKILL};
    }
  }
  advance();
}

// Workers.

void Coordinator::join(const proto::JoinRequest& request, Answer<proto::JoinReply> answer) {
  if (closed_) return answer(going_away());
  WorkerState* const worker = find_worker(state_, request.worker());
  if (worker == nullptr) return answer(unknown_worker(request.worker()));
  const TimePoint now = Clock::now();
  worker->joined = true;
  worker->last_heard = now;
  joins_.wait(worker->rank, now, deadline_of(request.timeout_ms(), options_.rendezvous.limits, now),
              std::move(answer));
  joins_.update(state_, options_.job_json, now);
  if (all_joined(state_)) {
    // Workers send heartbeats, and go on, only after the last of them has joined.
    for (WorkerState& each : state_.workers) each.last_heard = each.last_moved = now;
  }
  advance();
}

bool Coordinator::attach_worker(Rank rank, WorkerLink& link) {
  if (closed_ || find_worker(state_, rank) == nullptr) return false;
  if (const auto old = workers_.find(rank); old != workers_.end()) {
    old->second->close({.kind = Refusal::Kind::kUnavailable, .message = "replaced"});
  }
  workers_[rank] = &link;
  proto::WorkerCommand hello;
  hello.set_stop(state_.stop_sent);
  link.send(hello);
  return true;
}

void Coordinator::worker_said(const proto::WorkerMessage& message) {
  WorkerState* worker = find_worker(state_, message.rank());
  if (worker == nullptr) return;
  const TimePoint now = Clock::now();
  worker->last_heard = now;
  if (message.has_progress()) note_progress(*worker, message.progress(), now);
}

void Coordinator::note_progress(WorkerState& worker, const proto::Progress& progress,
                                TimePoint now) {
  if (worker.report) return;  // it has reported its end, and its last progress with it
  const proto::Progress kept = limited(progress);
  if (kept.starting()) return worker_progressed(worker, kept, now);
  metrics_.add_progress(worker, kept);
  worker_progressed(worker, kept, now);
  progress_.update(state_, now);
  if (worker.rank == 0) terminal_.progress(progress_line(progress_));
}

void Coordinator::worker_link_closed(Rank rank, WorkerLink& link) {
  const auto found = workers_.find(rank);
  if (found != workers_.end() && found->second == &link) workers_.erase(found);
}

void Coordinator::finish(const proto::FinishRequest& request,
                         const Answer<proto::FinishReply>& answer) {
  WorkerState* const worker = find_worker(state_, request.worker());
  if (worker == nullptr) return answer(unknown_worker(request.worker()));
  const TimePoint now = Clock::now();
  worker->last_heard = now;
  if (request.has_progress()) note_progress(*worker, request.progress(), now);
  worker_reported(state_, *worker, request.outcome(), request.message(), now);
  answer(proto::FinishReply());
  advance();
}

void Coordinator::set_value(const proto::SetValueRequest& request,
                            const Answer<proto::SetValueReply>& answer) {
  if (closed_) return answer(going_away());
  if (values_.set(request.key(), request.value())) return answer(proto::SetValueReply());
  answer(Refusal{.kind = Refusal::Kind::kInvalid,
                 .message = "key or value too large: keys are at most " +
                            std::to_string(KeyValues::kMaxKey) + " bytes, all together " +
                            std::to_string(KeyValues::kMaxBytes)});
}

void Coordinator::get_value(const proto::GetValueRequest& request,
                            const Answer<proto::GetValueReply>& answer) {
  if (closed_) return answer(going_away());
  const HealthLimits& limits = options_.rendezvous.limits;
  values_.get(request.key(), deadline_of(request.timeout_ms(), limits, Clock::now()),
              [answer](std::variant<std::string, Refusal> result) {
                if (auto* refusal = std::get_if<Refusal>(&result)) return answer(*refusal);
                proto::GetValueReply reply;
                reply.set_value(std::get<std::string>(std::move(result)));
                answer(std::move(reply));
              });
}

}  // namespace pfc
