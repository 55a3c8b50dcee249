#include "coordinator/rules/cluster_state.h"

#include <algorithm>
#include <utility>

#include "common/one_line.h"

namespace pfc {
namespace {

/// Returns the last line that is not blank or a warning: usually the reason of a crash.
std::string last_words(const std::vector<std::string>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->starts_with("pfc-worker: warning: ")) continue;
    if (line->find_first_not_of(" \t\r") != std::string::npos) return *line;
  }
  return {};
}

constexpr int kMostSlots = 1'024;            // a host that reports more GPUs is in error
constexpr std::size_t kMostFormer = 64;      // ids of replaced agents, per host
constexpr std::size_t kLongestDevice = 200;  // "cuda:0 NVIDIA H100 80GB HBM3 (79.6 GiB)"

Incident incident_of(const WorkerState& worker, Incident::Kind kind, const std::string& what,
                     TimePoint now) {
  return {.kind = kind,
          .rank = worker.rank,
          .host = {},
          .who = name_of(worker),
          .what = one_line(what),
          .at = now};
}

/// Resets the worker to a new process in the same slot, with the number `incarnation`.
void replace(ClusterState& state, WorkerState& worker, std::int64_t incarnation, TimePoint now) {
  if (worker.joined) state.job.current.joined -= 1;
  worker = {.rank = worker.rank,
            .host = worker.host,
            .slot = worker.slot,
            .incarnation = incarnation,
            .last_heard = now,
            .last_moved = now};
}

void count_slots(HostState& host, DeviceChoice device) {
  host.slots = device == DeviceChoice::kCpu ? 1 : std::clamp(host.gpus, 1, kMostSlots);
}

/// Returns whether the coordinator wants the workers to stop, for good or to regroup.
bool is_stopping(const ClusterState& state) {
  return state.job.stop || state.job.current.regroup || state.job.terminated_at;
}

/// Returns whether the coordinator has begun to end the workers.
bool ended_by_us(const ClusterState& state) {
  return state.job.terminated_at || state.job.killed_at;
}

}  // namespace

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

void add_incident(ClusterState& state, Incident incident) {
  if (HostState* const host = find_host(state, incident.host)) host->registered = false;
  state.job.current.incidents.push_back(std::move(incident));
}

void postpone(ClusterState& state, Clock::duration gap) {
  state.job.started_at += gap;
  state.job.current.started_at += gap;
  for (HostState& host : state.hosts) {
    host.last_heard += gap;
    if (host.leaving) host.leaving->at += gap;
  }
  for (WorkerState& worker : state.job.current.workers) {
    worker.last_heard += gap;
    worker.last_moved += gap;
    if (worker.report) worker.report->at += gap;
    if (worker.description) worker.description->asked_at += gap;
  }
  for (Incident& incident : state.job.current.incidents) incident.at += gap;
  if (state.job.current.regroup) state.job.current.regroup->at += gap;
  if (state.job.stop) state.job.stop->at += gap;
}

HostState* find_host(ClusterState& state, const std::string& name) {
  const auto host = std::find_if(state.hosts.begin(), state.hosts.end(),
                                 [&](const HostState& each) { return each.name == name; });
  return host == state.hosts.end() ? nullptr : &*host;
}

WorkerState* find_worker(ClusterState& state, Rank rank) {
  const bool known = rank >= 0 && rank < static_cast<Rank>(state.job.current.workers.size());
  return known ? &state.job.current.workers[rank] : nullptr;
}

WorkerState* find_worker(ClusterState& state, const HostState& host, int slot,
                         std::int64_t incarnation) {
  std::vector<WorkerState>& workers = state.job.current.workers;
  const auto first = workers.begin() + host.first_rank, end = first + host.workers;
  const auto worker = std::ranges::lower_bound(first, end, slot, {}, &WorkerState::slot);
  const bool same = worker != end && worker->slot == slot && worker->incarnation == incarnation;
  return same ? &*worker : nullptr;
}

WorkerState* find_worker(ClusterState& state, const proto::WorkerId& id) {
  const auto host = std::find_if(state.hosts.begin(), state.hosts.end(), [&](const auto& each) {
    return each.registered && each.agent_id == id.agent_id();
  });
  if (host == state.hosts.end()) return nullptr;
  return find_worker(state, *host, id.slot(), id.incarnation());
}

void worker_joined(ClusterState& state, WorkerState& worker) {
  if (!worker.joined) state.job.current.joined += 1;
  worker.joined = true;
}

bool all_joined(const ClusterState& state) {
  return state.job.current.joined == state.job.current.workers.size();
}

bool has_completed(const WorkerState& worker) {
  return worker.report && worker.report->outcome == proto::OUTCOME_COMPLETED;
}

bool has_ended_well(const WorkerState& worker) {
  return worker.report && (worker.report->outcome == proto::OUTCOME_COMPLETED ||
                           worker.report->outcome == proto::OUTCOME_STOPPED);
}

bool takes_part(const WorkerState& worker) {
  return !worker.exit && !worker.left && !worker.paused;
}

bool all_exited(const ClusterState& state) {
  return std::all_of(state.job.current.workers.begin(), state.job.current.workers.end(),
                     [](const WorkerState& worker) { return worker.exit.has_value(); });
}

std::string name_of(const WorkerState& worker) {
  std::string name = "rank " + std::to_string(worker.rank) + " (host " + worker.host + ", slot " +
                     std::to_string(worker.slot);
  if (worker.pid != 0) name += ", pid " + std::to_string(worker.pid);
  return name + ")";
}

std::string missing_workers(const ClusterState& state) {
  std::vector<std::string> names;
  for (const WorkerState& worker : state.job.current.workers) {
    if (!worker.joined) names.push_back(name_of(worker));
  }
  return listed(names);
}

std::string missing_hosts(const ClusterState& state) {
  std::vector<std::string> names;
  for (const HostState& host : state.hosts) {
    if (!host.registered) names.push_back(host.name);
  }
  return listed(names);
}

std::string staying_agents(const ClusterState& state) {
  std::vector<std::string> names;
  for (const HostState& host : state.hosts) {
    if (host.registered && !host.once && !host.leaving) names.push_back(host.name);
  }
  if (names.empty()) return {};
  const bool several = names.size() > 1;
  return std::string(several ? "the agents of hosts " : "the agent of host ") + listed(names) +
         (several ? " wait" : " waits") +
         " for the next job: to end an agent, send it SIGTERM or press Ctrl-C on its host; an "
         "agent that is started with --once ends with its job";
}

void host_registered(HostState& host, const proto::AgentRegistration& registration,
                     DeviceChoice device, TimePoint now) {
  const bool is_another = host.agent_id != registration.agent_id();
  if (is_another || !host.registered) host.came_at = now;
  host.registered = true;
  if (is_another) host.leaving.reset();
  host.agent_id = registration.agent_id();
  host.cores = std::max(registration.cores(), 0);
  host.devices.clear();
  for (int i = 0; i < std::min(registration.devices_size(), kMostSlots + 1); ++i) {
    host.devices.push_back(one_line(registration.devices(i), kLongestDevice));
  }
  host.gpus = registration.gpus();
  host.no_gpu = host.gpus > 0 ? "" : one_line(registration.no_gpu());
  if (host.gpus <= 0 && host.no_gpu.empty()) host.no_gpu = "no GPU";
  host.once = registration.once();
  host.addresses = addresses_in(registration);
  host.last_heard = now;
  if (host.slots > 0) return;
  host.counts_gpus = true;
  count_slots(host, device);
}

void host_leaves(HostState& host, const std::string& reason, std::chrono::milliseconds within,
                 TimePoint now) {
  host.leaving = Leaving{.reason = reason, .within = within, .at = now};
}

void agent_left_behind(HostState& host, const std::string& agent_id) {
  if (host.former_agents.size() >= kMostFormer) {
    host.former_agents.erase(host.former_agents.begin());
  }
  host.former_agents.push_back(agent_id);
}

void begin_job(ClusterState& state, const std::string& id, DeviceChoice device, TimePoint now) {
  state.job = {.id = id, .started_at = now, .device = device};
  for (HostState& host : state.hosts) {
    host.first_rank = host.workers = 0;
    if (host.counts_gpus) count_slots(host, device);
  }
}

void end_job(ClusterState& state, TimePoint now) {
  state.job = {.id = {}, .started_at = now};
  for (HostState& host : state.hosts) host.first_rank = host.workers = 0;
}

std::vector<std::string> release_silent_hosts(ClusterState& state,
                                              std::chrono::milliseconds silence, TimePoint now) {
  std::vector<std::string> released;
  for (HostState& host : state.hosts) {
    if (!host.registered || now - host.last_heard < silence) continue;
    host.registered = false;
    released.push_back(host.name);
  }
  return released;
}

void agent_replaced(ClusterState& state, HostState& host, TimePoint now) {
  host.incarnation += 1;
  const bool start_again =
      !all_joined(state) && state.job.current.incidents.empty() && !ended_by_us(state);
  bool lost = false;
  for (WorkerState& worker : state.job.current.workers) {
    if (worker.host != host.name || worker.exit) continue;
    if (start_again) {
      replace(state, worker, host.incarnation, now);
      continue;
    }
    worker.exit = ProcessExit{.signal = SIGKILL};
    lost = true;
  }
  if (!lost || ended_by_us(state)) return;
  add_incident(
      state,
      {.kind = Incident::Kind::kCrash,
       .rank = {},
       .host = {},  // it is registering now
       .who = "host " + host.name,
       .what = "its pfc-agent was started again, and its workers have ended with the old one",
       .at = now});
}

bool worker_exited(ClusterState& state, WorkerState& worker, const ProcessExit& exit,
                   const std::vector<std::string>& last_stderr, TimePoint now) {
  if (worker.exit) return false;  // repeated by a reconnected agent
  if (worker.stayed && !worker.joined && state.job.current.incidents.empty() &&
      !ended_by_us(state)) {
    replace(state, worker, find_host(state, worker.host)->incarnation += 1, now);
    return true;
  }
  worker.exit = exit;
  if (ended_by_us(state)) return false;
  const bool reported_success = has_ended_well(worker);
  if (worker.report && (!reported_success || exit.success())) return false;
  std::string what = reported_success ? "reported success, then " : "";
  what += describe(exit);
  if (!worker.report && exit.success()) what += " without reporting how its work ended";
  if (const std::string words = last_words(last_stderr); !words.empty()) what += ": " + words;
  Incident incident = incident_of(worker, Incident::Kind::kCrash, what, now);
  // The shell cannot run the program, or a library is missing.
  const bool cannot_run = exit.signal == 0 && (exit.code == 126 || exit.code == 127);
  // In a later generation the program has already run in other slots, so only this slot is broken,
  // and the job may continue without it.
  const bool is_first = state.job.current.number == 1;
  if (!worker.joined && cannot_run && is_first) incident.at_start = incident.permanent = true;
  add_incident(state, std::move(incident));
  return false;
}

void worker_not_started(ClusterState& state, WorkerState& worker, const std::string& why,
                        TimePoint now) {
  if (worker.exit) return;
  worker.exit = ProcessExit{.code = kCannotStartCode};
  Incident incident = incident_of(worker, Incident::Kind::kCrash, why, now);
  incident.at_start = incident.permanent = true;
  add_incident(state, std::move(incident));
}

void worker_reported(ClusterState& state, WorkerState& worker, proto::Outcome outcome,
                     const std::string& message, TimePoint now) {
  if (worker.report) return;
  worker.report = WorkerReport{.outcome = outcome, .message = one_line(message), .at = now};
  const bool unasked = outcome == proto::OUTCOME_STOPPED && !is_stopping(state);
  if (has_ended_well(worker) && !unasked) return;
  const bool peer = outcome == proto::OUTCOME_COMM_FAILED;
  // After the coordinator has ended workers, lost peers do not count as failures, and only the
  // first failure counts. It can be a worker's own, such as a failed checkpoint.
  if (ended_by_us(state) && (peer || !state.job.current.incidents.empty())) return;
  // A worker that stops makes all others stop too. So the cause is a signal to one of them, or the
  // failure of one of them, which that worker reports a moment later.
  Incident incident = incident_of(
      worker, peer || unasked ? Incident::Kind::kPeerLost : Incident::Kind::kCrash,
      unasked
          ? "stopped without a request to stop the job; was SIGTERM sent to a worker or its agent?"
          : message,
      now);
  incident.permanent = outcome == proto::OUTCOME_BAD_INPUT;
  add_incident(state, std::move(incident));
}

void state_saved(ClusterState& state, std::int64_t step, TimePoint now) {
  SavedState& saved = state.job.saved;
  const bool is_first =
      std::exchange(saved.generation, state.job.current.number) != state.job.current.number;
  const bool is_new = !is_first && step > saved.step;
  saved.step = step;
  if (!is_new) return;
  saved.at = now;
  refill(state.job.budget, now);
}

void generation_lost(ClusterState& state) {
  state.job.current.lost = true;
  std::erase_if(state.job.current.incidents, [](const Incident& incident) {
    return incident.kind == Incident::Kind::kPeerLost;
  });
}

void checkpoint_reported(ClusterState& state, const WorkerState& rank_zero,
                         const proto::Progress& progress) {
  SavedState& saved = state.job.saved;
  if (saved.planned_workers == 0 && progress.images_seen() > 0) {
    saved.planned_workers = static_cast<int>(state.job.current.workers.size());
  }
  saved.memory_step = progress.memory_step();
  saved.memory_generation = state.job.current.number;
  if (progress.starting()) return;  // workers do not know yet which hosts share the output folder
  // A single host cannot know whether others share its folder, so keep the earlier information.
  const bool one_host =
      std::ranges::all_of(state.job.current.workers,
                          [&](const WorkerState& worker) { return worker.host == rank_zero.host; });
  saved.sharing_is_known = saved.sharing_is_known || !one_host;
  const bool unshared = one_host ? !saved.checkpoint_host.empty() : progress.output_unshared();
  // An earlier generation's checkpoint counts until this one has its own.
  if (progress.checkpoint_step() <= 0 && saved.checkpoint_step > 0) {
    if (unshared && saved.checkpoint_host.empty()) saved.checkpoint_host = saved.checkpoint_writer;
    return;
  }
  saved.checkpoint_step = progress.checkpoint_step();
  saved.checkpoint_writer = rank_zero.host;
  saved.checkpoint_host = unshared ? rank_zero.host : "";
}

bool may_pause(const ClusterState& state, const WorkerState& worker) {
  if (!state.job.current.regroup || state.job.stop || state.job.terminated_at) return false;
  return std::ranges::none_of(
      state.hosts, [&](const HostState& host) { return host.name == worker.host && host.leaving; });
}

void worker_paused(WorkerState& worker) { worker.paused = true; }

void worker_left(ClusterState& state, WorkerState& worker, const std::string& message,
                 TimePoint now) {
  if (worker.left) return;
  worker.left = true;
  add_incident(state, incident_of(worker, Incident::Kind::kPeerLost, message, now));
}

}  // namespace pfc
