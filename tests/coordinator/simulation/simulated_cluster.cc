#include "tests/coordinator/simulation/simulated_cluster.h"

#include <algorithm>

#include "coordinator/rules/verdict.h"
#include "tests/coordinator/taken_over.h"

namespace pfc::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kEventsOfAHistory = 500;
constexpr int kCalmSeconds = 3'600;
constexpr int kSecondsToEnd = 300;

}  // namespace

Tally& Tally::operator+=(const Tally& other) {
  events += other.events;
  generations += other.generations;
  restarts += other.restarts;
  planned += other.planned;
  smaller += other.smaller;
  left_out += other.left_out;
  takeovers += other.takeovers;
  completed += other.completed;
  stopped += other.stopped;
  failed += other.failed;
  return *this;
}

SimulatedCluster::SimulatedCluster(unsigned seed) : random_(seed) {
  config_.max_restarts = chance(0.2) ? 0 : static_cast<int>(below(30));
  const int hosts = 1 + static_cast<int>(below(5));
  int slots = 0;
  for (int i = 0; i < hosts; ++i) {
    HostState& host = state_.hosts.emplace_back();
    host.name = "host" + std::to_string(i);
    host.slots = 1 + static_cast<int>(below(3));
    slots += host.slots;
  }
  ElasticConfig& elastic = config_.elastic;
  if (chance(0.4)) elastic.spares = static_cast<int>(below(static_cast<std::size_t>(slots)));
  const int most = slots - elastic.spares;
  if (chance(0.6))
    elastic.min_workers = 1 + static_cast<int>(below(static_cast<std::size_t>(most)));
  if (chance(0.3)) {
    const int least = std::max(elastic.min_workers, 1);
    elastic.max_workers = least + static_cast<int>(below(static_cast<std::size_t>(slots)));
  }
  state_.job.id = "job";
  state_.job.started_at = now_;
}

void SimulatedCluster::expect(bool holds, const std::string& promise) {
  if (!holds) problems_.push_back(promise + " (" + reason_ + ")");
}

void SimulatedCluster::run(int events) {
  for (int event = 0; event < events && !over_ && problems_.empty(); ++event) {
    ++tally_.events;
    happens();
    decides();
  }
  calm_time();
  tally_.generations = state_.job.current.number;
  tally_.restarts = state_.job.restarts;
  if (!over_) return;
  const Verdict end = verdict(state_);
  tally_.completed = end.kind == Verdict::Kind::kCompleted ? 1 : 0;
  tally_.stopped = end.kind == Verdict::Kind::kStopped ? 1 : 0;
  tally_.failed = end.kind == Verdict::Kind::kFailed ? 1 : 0;
  expect(!end.message.empty(), "a job ends with a verdict");
  expect(end.kind != Verdict::Kind::kStopped || state_.job.stop.has_value(),
         "a job stops only on request");
  const auto& incidents = state_.job.current.incidents;
  const bool was_restarting = state_.job.current.counted && !incidents.empty() &&
                              std::ranges::none_of(incidents, &Incident::permanent);
  if (state_.job.stop && !state_.job.stop->leaving.empty() && was_restarting &&
      incidents.back().at <= state_.job.stop->at) {
    expect(end.host_left, "a host that leaves during a restart drains the job");
  }
}

void SimulatedCluster::calm_time() {
  const auto second = [&] {
    now_ += 1s;
    everybody_is_heard();
    everybody_joins();
    if (chance(0.1)) everybody_trains();
    measurement_ends();
    signals_arrive();
    decides();
  };
  for (int i = 0; i < kCalmSeconds && !over_ && problems_.empty(); ++i) second();
  if (over_ || !problems_.empty()) return;
  expect(goes_on(), "after a calm hour the job trains, or has ended");
  state_.job.stop = StopRequest{.reason = "a person", .at = now_, .leaving = {}};
  for (int i = 0; i < kSecondsToEnd && !over_ && problems_.empty(); ++i) second();
  expect(over_, "a stop ends the job in time");
}

bool SimulatedCluster::goes_on() const {
  const GenerationState& current = state_.job.current;
  return current.number > 0 && all_joined(state_) && current.incidents.empty() && !current.regroup;
}

void SimulatedCluster::happens() {
  now_ += std::chrono::milliseconds{below(chance(0.05) ? 20'000 : 500)};
  if (goes_on() && chance(0.05)) now_ += std::chrono::minutes{below(60)};
  if (chance(0.9)) everybody_is_heard();
  if (chance(0.5)) measurement_ends();
  signals_arrive();
  if (chance(0.01)) coordinator_is_killed();
  if (chance(0.003)) stops_unasked();
  if (chance(0.001)) own_agent_ends();
  switch (below(8)) {
    case 0:
      return host_registers(any_host(), chance(0.2));
    case 1:
      return happens_to_host(any_host());
    case 2:
      if (chance(0.005)) {
        state_.job.stop =
            StopRequest{.reason = "a person", .urgent = chance(0.5), .at = now_, .leaving = {}};
      }
      return;
    case 3:
      if (WorkerState* const worker = any_worker()) happens_to_worker(*worker);
      return;
    case 4:
      return everybody_trains();
    case 5:
      return link_breaks();
    default:
      return everybody_joins();
  }
}

void SimulatedCluster::coordinator_is_killed() {
  tally_.takeovers += 1;
  state_ = taken_over(state_, now_, WallTime() + std::chrono::hours{24} + now_.time_since_epoch());
}

void SimulatedCluster::happens_to_host(HostState& host) {
  if (chance(0.5)) {
    cut_.erase(host.name);
  } else if (chance(0.1)) {
    cut_.insert(host.name);
  } else if (chance(0.1) && host.registered) {
    host_leaves(host, "SIGTERM", std::chrono::seconds{below(60)}, now_);
  } else if (chance(0.2) && host.registered) {
    agent_replaced(state_, host, now_);
    for (const WorkerState& worker : state_.job.current.workers) {
      processes_.insert(process(worker));
    }
  }
}

void SimulatedCluster::stops_unasked() {
  if (!goes_on() || state_.job.stop || state_.job.terminated_at) return;
  auto& workers = state_.job.current.workers;
  if (!std::ranges::all_of(workers, [&](const WorkerState& worker) { return lives(worker); }))
    return;
  for (WorkerState& worker : workers) {
    worker_reported(state_, worker, proto::OUTCOME_STOPPED, "", now_);
    worker_exited(state_, worker, {}, {}, now_);
  }
}

void SimulatedCluster::own_agent_ends() {
  HostState& own = state_.hosts.front();
  if (own_agent_ended_ || !own.registered) return;
  own_agent_ended_ = true;
  const bool had_workers = own.workers > 0;
  const std::size_t incidents = state_.job.current.incidents.size();
  lose_agent_for_good(state_, own, config_.elastic, "ended", state_.job.current.number == 0, now_);
  if (!had_workers && state_.job.current.number > 0) {
    expect(state_.job.current.incidents.size() == incidents,
           "the end of the local agent changes nothing if its host has no worker");
  }
}

void SimulatedCluster::host_registers(HostState& host, bool other_agent) {
  if (cut_.contains(host.name)) return;
  if (own_agent_ended_ && &host == &state_.hosts.front()) return;
  if (other_agent && host.registered) return;  // the old agent is still there
  proto::AgentRegistration registration;
  registration.set_gpus(1);
  registration.set_agent_id(
      host.agent_id.empty() || other_agent ? "agent" + std::to_string(++agents_) : host.agent_id);
  proto::NetworkAddress* const address = registration.add_addresses();
  address->set_interface("eth0");
  address->set_address("10.0.0." + host.name.substr(4));
  address->set_prefix(24);
  host_registered(host, registration, DeviceChoice::kAuto, now_);
}

void SimulatedCluster::link_breaks() {
  if (chance(0.7)) return broken_.clear();
  if (!chance(0.1)) return;
  const std::string &one = any_host().name, &other = any_host().name;
  if (one == other) return;
  broken_.insert({one, other});
  for (WorkerState& worker : state_.job.current.workers) {
    const bool loses = worker.joined && takes_part(worker) && may_restart(state_, config_);
    if (loses && (worker.host == one || worker.host == other)) {
      worker_left(state_, worker, "lost a peer", now_);
    }
  }
}

void SimulatedCluster::measurement_ends() {
  NetworkState& network = state_.network;
  if (network.agents.empty() || network.ended_at) return;
  const auto takes_part = [&](const std::string& name) {
    for (std::size_t i = 0; i < state_.hosts.size(); ++i) {
      if (state_.hosts[i].name == name) {
        return !network.agents[i].empty() && !cut_.contains(name);
      }
    }
    return false;
  };
  network.ended_at = now_;
  network.text = "a network";
  network.apart.clear();
  for (const auto& [one, other] : broken_) {
    if (takes_part(one) && takes_part(other)) network.apart.push_back(other);
  }
  network.failed = !network.apart.empty();
  if (chance(0.1)) network.changed = true;
}

void SimulatedCluster::happens_to_worker(WorkerState& worker) {
  switch (below(5)) {
    case 0:
      frozen_.insert(process(worker));
      return;
    case 1:
      if (worker_exited(state_, worker, {.signal = 9}, {"words"}, now_)) {
        expect(processes_.insert(process(worker)).second, "a process that is new has a new name");
      }
      return;
    case 2:
      if (!worker.joined || worker.exit || !may_restart(state_, config_)) return;
      return worker_left(state_, worker, "lost a peer", now_);
    case 3:
      if (!worker.joined || !lives(worker) || chance(0.99)) return;
      for (WorkerState& each : state_.job.current.workers) {  // the last step is complete
        if (!lives(each) || !each.joined) continue;
        worker_reported(state_, each, proto::OUTCOME_COMPLETED, "", now_);
        worker_exited(state_, each, {}, {}, now_);
      }
      return;
    default:
      if (!worker.joined || chance(0.6)) return;
      return worker_reported(state_, worker,
                             chance(0.98) ? proto::OUTCOME_FAILED : proto::OUTCOME_BAD_INPUT,
                             "words", now_);
  }
}

WorkerState* SimulatedCluster::any_worker() {
  auto& workers = state_.job.current.workers;
  return workers.empty() ? nullptr : &workers[below(workers.size())];
}

SimulatedCluster::Process SimulatedCluster::process(const WorkerState& worker) {
  return {worker.host + "/" + std::to_string(worker.slot), worker.incarnation};
}

bool SimulatedCluster::is_reached(const WorkerState& worker) const {
  return !cut_.contains(worker.host);
}

bool SimulatedCluster::lives(const WorkerState& worker) const {
  return is_reached(worker) && !frozen_.contains(process(worker)) && !worker.exit;
}

void SimulatedCluster::everybody_is_heard() {
  for (HostState& host : state_.hosts) {
    if (!cut_.contains(host.name)) host.last_heard = now_;
  }
  for (WorkerState& worker : state_.job.current.workers) {
    if (lives(worker)) worker.last_heard = worker.last_moved = now_;
  }
}

void SimulatedCluster::everybody_joins() {
  for (WorkerState& worker : state_.job.current.workers) {
    if (lives(worker)) worker_joined(state_, worker);
  }
}

void SimulatedCluster::everybody_trains() {
  if (!goes_on()) return;
  if (!std::ranges::all_of(state_.job.current.workers,
                           [&](const WorkerState& worker) { return lives(worker); })) {
    return;  // the workers wait for one that is not alive
  }
  proto::Progress progress;
  progress.set_step(++step_);
  for (WorkerState& worker : state_.job.current.workers) worker_progressed(worker, progress, now_);
  const int spent = state_.job.budget.spent;
  if (step_ % 3 == 0) state_saved(state_, step_, now_);
  refills_ += spent - state_.job.budget.spent;
}

void SimulatedCluster::signals_arrive() {
  for (WorkerState& worker : state_.job.current.workers) {
    if (!is_reached(worker) || worker.exit) continue;
    const bool obeys =
        state_.job.terminated_at && !frozen_.contains(process(worker)) && chance(0.5);
    if (obeys || state_.job.killed_at) worker_exited(state_, worker, {.signal = 15}, {}, now_);
    if (state_.job.current.stop_sent && !worker.report && lives(worker)) asked_to_stop(worker);
  }
}

void SimulatedCluster::asked_to_stop(WorkerState& worker) {
  if (!worker.joined || worker.paused) return;
  if (may_pause(state_, worker)) return worker_paused(worker);
  worker_reported(state_, worker, proto::OUTCOME_STOPPED, "", now_);
  worker_exited(state_, worker, {}, {}, now_);
}

void SimulatedCluster::decides() {
  for (int round = 0; !over_ && problems_.empty(); ++round) {
    if (round == 100) return expect(false, "decide() finally waits");
    const Decision decision = decide(state_, config_, now_);
    reason_ = decision.reason;
    expect(!reason_.empty(), "a decision has a reason");
    if (decision.actions.empty()) break;
    for (const Action& action : decision.actions) {
      const auto* start = std::get_if<action::StartGeneration>(&action);
      if (start != nullptr) check_start(*start);
      if (const auto* change = std::get_if<action::Count>(&action)) {
        tally_.left_out += std::ranges::count_if(change->blame.records, [&](const auto& record) {
          return record.until && is_left_out(record, now_) && record.last == *record.until;
        });
      }
      const Generation before = state_.job.current.number;
      apply(state_, action, now_);
      expect(state_.job.current.number == before + (start != nullptr ? 1 : 0),
             "only a start action begins a generation");
      if (start != nullptr) check_processes(*start);
      over_ = over_ || std::holds_alternative<action::Finish>(action);
    }
  }
  expect(state_.job.budget.spent <= config_.max_restarts, "restarts stay within the budget");
  static_cast<void>(verdict(state_));
}

void SimulatedCluster::check_start(const action::StartGeneration& start) {
  const int size = static_cast<int>(start.members.size());
  const ElasticConfig& elastic = config_.elastic;
  tally_.smaller += size < wanted_workers(state_, elastic) ? 1 : 0;
  tally_.planned += !start.cause && state_.job.current.number > 0 ? 1 : 0;
  expect(!over_ && !state_.job.stop && !state_.job.terminated_at, "no start in an ending job");
  expect(state_.job.restarts + (start.cause ? 1 : 0) <= config_.max_restarts + refills_,
         "a restart needs one that is left");
  expect(size >= std::max(elastic.min_workers, 1), "it has at least --min-workers");
  expect(elastic.max_workers == 0 || size <= elastic.max_workers, "it has at most --max-workers");
  int slots = 0;
  for (const HostState& host : state_.hosts) slots += host.slots;
  expect(size <= std::max(slots - elastic.spares, 1), "spares stay idle");
  if (elastic.min_workers == 0) {
    expect(size == wanted_workers(state_, elastic), "without --min-workers no worker is missing");
  }
  std::set<std::pair<std::string, int>> places;
  Rank next = 0, last = -1;
  for (const Member& member : start.members) {
    expect(member.rank == next++, "ranks are 0, 1, 2, ...");
    expect(places.insert({member.host, member.slot}).second, "no slot has two workers");
    check_member(member);
    if (member.survivor == 0) continue;
    const WorkerState* const worker =
        find_worker(state_, *find_host(state_, member.host), member.slot, member.survivor);
    if (worker == nullptr) continue;
    expect(worker->rank > last, "survivors keep their order");
    last = worker->rank;
  }
}

void SimulatedCluster::check_member(const Member& member) {
  const HostState* const host = find_host(state_, member.host);
  expect(host != nullptr && host->registered, "a member's host is registered");
  if (host == nullptr) return;
  expect(member.slot >= 0 && member.slot < host->slots, "the host has the slot of a member");
  expect(!host->leaving, "a leaving host gets no worker");
  expect(!is_left_out(state_.job.blame, member.host, member.slot, now_),
         "no excluded slot has a worker");
  if (member.survivor == 0) return;
  const WorkerState* const worker = find_worker(state_, *host, member.slot, member.survivor);
  expect(worker != nullptr && !worker->exit && !worker->report, "a survivor is alive");
  if (worker == nullptr) return;
  for (const Incident& incident : state_.job.current.incidents) {
    expect(incident.kind == Incident::Kind::kPeerLost || incident.rank != worker->rank,
           "no survivor is blamed");
  }
}

void SimulatedCluster::check_processes(const action::StartGeneration& start) {
  const std::vector<WorkerState>& workers = state_.job.current.workers;
  expect(workers.size() == start.members.size(), "every member has a worker");
  for (const Member& member : start.members) {
    const WorkerState& worker = workers.at(member.rank);
    expect(worker.host == member.host && worker.slot == member.slot, "each worker is in its slot");
    const bool is_new = processes_.insert(process(worker)).second;
    expect(is_new == (member.survivor == 0), "only a new process has a new name");
    expect(!(worker.joined || worker.exit || worker.report || worker.left || worker.paused),
           "a new worker has no reports yet");
    expect(find_worker(state_, *find_host(state_, worker.host), worker.slot, worker.incarnation) ==
               &worker,
           "a worker is found by its slot");
  }
}

Tally simulate(std::int64_t events, unsigned first_seed, std::string& problem) {
  Tally tally;
  for (unsigned seed = first_seed; tally.events < events && problem.empty(); ++seed) {
    SimulatedCluster cluster(seed);
    cluster.run(kEventsOfAHistory);
    tally += cluster.tally();
    if (!cluster.problems().empty()) {
      problem = "seed " + std::to_string(seed) + ": " + cluster.problems().front();
    }
  }
  return tally;
}

}  // namespace pfc::testing
