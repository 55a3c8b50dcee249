#include "coordinator/rules/health.h"

#include <algorithm>

#include "common/one_line.h"
#include "coordinator/rules/progress/awaited.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

// Silence or lack of progress that makes a worker suspect: more than three heartbeats (1 s each).
constexpr milliseconds kSuspicious{4'000};

milliseconds elapsed(TimePoint from, TimePoint now) {
  return std::chrono::duration_cast<milliseconds>(now - from);
}

std::string seconds(milliseconds time) {
  if (time < milliseconds{1'000}) return std::to_string(time.count()) + " ms";
  return std::to_string(time.count() / 1000) + " s";
}

/// Returns whether this is the job's first generation, or none has begun.
bool is_first(const ClusterState& state) { return state.job.current.number <= 1; }

std::string silence_of(const WorkerState& worker, TimePoint now) {
  const std::string seen = last_seen(worker);
  return "silent for " + seconds(elapsed(worker.last_heard, now)) +
         (seen.empty() ? "" : "; " + seen);
}

Incident late_at_start(std::string who, std::string what, TimePoint now) {
  return {.kind = Incident::Kind::kCrash,
          .rank = {},
          .host = {},
          .who = std::move(who),
          .what = std::move(what),
          .at_start = true,
          .permanent = true,
          .at = now};
}

/// Returns an incident of the worker, with its agent's description of the process.
Incident about(const WorkerState& worker, std::string what, TimePoint now) {
  if (worker.description && !worker.description->text.empty()) {
    what += "; " + worker.description->text;
  }
  return {.kind = Incident::Kind::kSilence,
          .rank = worker.rank,
          .host = {},
          .who = name_of(worker),
          .what = std::move(what),
          .at = now};
}

/// Returns what to do about hosts that have not registered.
std::string missing_hosts_advice(const ClusterState& state) {
  if (!state.launch_advice.empty()) return state.launch_advice;
  const HostState* only = nullptr;
  for (const HostState& host : state.hosts) {
    if (host.registered) continue;
    if (!host.resolves || !host.answered) return agent_advice(state.address, host);
    if (only != nullptr && !only->local) return agent_advice(state.address, {.name = "NAME"});
    only = &host;
  }
  return agent_advice(state.address, *only);
}

/// Finds the cause if workers have joined but do not reach their first step, where they wait for
/// each other. While a worker progresses, blames none. Otherwise blames the worker whose last
/// progress is oldest.
void find_stuck_before_training(const ClusterState& state, const HealthLimits& limits,
                                TimePoint now, std::vector<Incident>& found) {
  const WorkerState* stuck = nullptr;
  for (const WorkerState& worker : state.job.current.workers) {
    if (worker.training || worker.report || worker.exit) continue;
    if (elapsed(worker.last_moved, now) < limits.start) return;
    if (stuck == nullptr || worker.last_moved < stuck->last_moved) stuck = &worker;
  }
  if (stuck == nullptr) return;
  const std::string& doing = stuck->progress.phase();
  Incident incident = about(*stuck,
                            "has not begun to train: no progress for " + seconds(limits.start) +
                                (doing.empty() ? "" : " in: " + one_line(doing)) +
                                "; --start-timeout sets this limit",
                            now);
  if (is_first(state)) {
    incident.kind = Incident::Kind::kCrash;
    incident.at_start = incident.permanent = true;
  }
  found.push_back(std::move(incident));
}

void find_missing_hosts(const ClusterState& state, const HealthLimits& limits, TimePoint now,
                        std::vector<Incident>& found) {
  const std::string missing = missing_hosts(state);
  if (missing.empty() || elapsed(state.job.started_at, now) < limits.start) return;
  const bool several = missing.find(',') != std::string::npos;
  found.push_back(late_at_start(
      (several ? "hosts " : "host ") + missing,
      "no agent has registered after " + seconds(limits.start) + "; " +
          (state.refused_agent.empty() ? ""
                                       : "an agent was refused: " + state.refused_agent + "; ") +
          missing_hosts_advice(state),
      now));
}

void find_missing_workers(const ClusterState& state, const HealthLimits& limits, TimePoint now,
                          std::vector<Incident>& found) {
  if (elapsed(state.job.current.started_at, now) < limits.start) return;
  const std::string what = "has not joined after " + seconds(limits.start);
  if (is_first(state)) {
    found.push_back(late_at_start(missing_workers(state), what, now));
    return;
  }
  for (const WorkerState& worker : state.job.current.workers) {
    if (!worker.joined) found.push_back(about(worker, what, now));
  }
}

void find_overdue_start(const ClusterState& state, const HealthLimits& limits, TimePoint now,
                        std::vector<Incident>& found) {
  if (state.job.current.number == 0) return find_missing_hosts(state, limits, now, found);
  if (!all_joined(state)) return find_missing_workers(state, limits, now, found);
  find_stuck_before_training(state, limits, now, found);
}

bool is_silent(const HostState& host, const HealthLimits& limits, TimePoint now) {
  return host.registered && elapsed(host.last_heard, now) >= limits.silence;
}

void add_silent_hosts(const ClusterState& state, const HealthLimits& limits, TimePoint now,
                      std::vector<Incident>& found) {
  for (const HostState& host : state.hosts) {
    if (!is_silent(host, limits, now)) continue;
    found.push_back(
        {.kind = Incident::Kind::kSilence,
         .rank = {},
         .host = host.name,
         .who = "host " + host.name,
         .what = "its agent has been silent for " + seconds(elapsed(host.last_heard, now)),
         .at_start = state.job.current.number == 0,
         .at = now});
  }
}

/// Returns whether the worker's host is silent too, so that the host is reported, not the worker.
bool is_on_silent_host(const WorkerState& worker, const ClusterState& state,
                       const HealthLimits& limits, TimePoint now) {
  return std::ranges::any_of(state.hosts, [&](const HostState& host) {
    return host.name == worker.host && is_silent(host, limits, now);
  });
}

void find_late_workers(const ClusterState& state, const HealthLimits& limits, TimePoint now,
                       std::vector<Incident>& found) {
  if (!all_joined(state)) return;
  for (const WorkerState& worker : state.job.current.workers) {
    if (worker.exit || worker.paused) continue;
    if (worker.report && elapsed(worker.report->at, now) >= limits.leave) {
      found.push_back(about(
          worker, "reported the end of its work, but still runs after " + seconds(limits.leave),
          now));
    }
    if (!worker.report && elapsed(worker.last_heard, now) >= limits.silence &&
        !is_on_silent_host(worker, state, limits, now)) {
      found.push_back(about(worker, silence_of(worker, now), now));
    }
  }
}

/// Returns whether the worker's reports are current, and it has work to do.
bool is_heard_training(const WorkerState& worker, TimePoint now) {
  return worker.training && !worker.exit && !worker.report && !worker.left &&
         elapsed(worker.last_heard, now) < kSuspicious;
}

Incident stuck(const WorkerState& worker, const Awaited& awaited, TimePoint now) {
  return about(worker,
               "no progress for " + seconds(elapsed(worker.last_moved, now)) + " at step " +
                   std::to_string(worker.progress.step()) + " in " +
                   one_line(worker.progress.phase()) + " " + to_text(awaited),
               now);
}

std::vector<Standing> standings_of(const std::vector<WorkerState>& workers) {
  std::vector<Standing> standings;
  for (const WorkerState& worker : workers) {
    standings.push_back({.rank = worker.rank, .progress = &worker.progress});
  }
  return standings;
}

/// Finds workers in training that block the others. Returns none while any worker moves, is
/// silent, or is about to end.
void find_stuck_in_training(const ClusterState& state, const HealthLimits& limits, TimePoint now,
                            std::vector<Incident>& found) {
  const GenerationState& current = state.job.current;
  if (!all_joined(state) || current.workers.size() < 2) return;
  TimePoint last_moved{};
  for (const WorkerState& worker : current.workers) {
    last_moved = std::max(last_moved, worker.last_moved);
    if (elapsed(last_moved, now) < limits.pace.floor || !is_heard_training(worker, now)) return;
  }
  for (const Awaited& awaited : find_awaited(standings_of(current.workers))) {
    const WorkerState& worker = current.workers[static_cast<std::size_t>(awaited.rank)];
    const milliseconds limit = current.pace.limit(worker.progress.phase(), limits.pace);
    if (elapsed(last_moved, now) >= limit) found.push_back(stuck(worker, awaited, now));
  }
}

/// Returns the first worker for which others wait, or waited before giving up; null if unknown.
const WorkerState* awaited_of(const ClusterState& state) {
  const auto& workers = state.job.current.workers;
  for (const Awaited& awaited : find_awaited(standings_of(workers))) {
    const WorkerState& worker = workers[static_cast<std::size_t>(awaited.rank)];
    if (!worker.exit && !worker.report && !worker.left) return &worker;
  }
  return nullptr;
}

/// Returns whether the worker's last report says that it is in a collective.
bool is_in_collective(const WorkerState& worker) {
  return std::ranges::any_of(worker.progress.comm(), [](const proto::CommTotal& comm) {
    return comm.done() < comm.calls();
  });
}

bool same_collectives(const proto::Progress& a, const proto::Progress& b) {
  return std::ranges::equal(a.comm(), b.comm(), [](const auto& x, const auto& y) {
    return x.calls() == y.calls() && x.done() == y.done();
  });
}

/// Returns the incident's worker; null if there is none, or it has ended.
const WorkerState* blamed(const ClusterState& state, const Incident& incident) {
  const auto& workers = state.job.current.workers;
  if (!incident.rank || incident.kind == Incident::Kind::kPeerLost) return nullptr;
  const auto place = static_cast<std::size_t>(*incident.rank);
  return place < workers.size() && !workers[place].exit ? &workers[place] : nullptr;
}

}  // namespace

void worker_progressed(WorkerState& worker, const proto::Progress& progress, TimePoint now) {
  const bool moved =
      worker.training == progress.starting() || progress.step() != worker.progress.step() ||
      progress.phase() != worker.progress.phase() || progress.work() != worker.progress.work() ||
      !same_collectives(progress, worker.progress);
  if (moved) {
    worker.last_moved = now;
    worker.description.reset();
  }
  worker.training = !progress.starting();
  worker.progress = progress;
  worker.progress.clear_phases();  // counted in the metrics
}

std::vector<Incident> find_overdue(const ClusterState& state, const HealthLimits& limits,
                                   TimePoint now) {
  std::vector<Incident> found;
  find_overdue_start(state, limits, now, found);
  add_silent_hosts(state, limits, now, found);
  find_late_workers(state, limits, now, found);
  if (found.empty()) find_stuck_in_training(state, limits, now, found);
  return found;
}

std::vector<Rank> to_be_described(const ClusterState& state,
                                  const std::vector<Incident>& incidents) {
  std::vector<Rank> ranks;
  for (const Incident& incident : incidents) {
    const WorkerState* const worker = blamed(state, incident);
    if (worker != nullptr && worker->joined && !worker->description) ranks.push_back(worker->rank);
  }
  return ranks;
}

bool awaits_description(const ClusterState& state, const std::vector<Incident>& incidents,
                        TimePoint now) {
  return std::ranges::any_of(incidents, [&](const Incident& incident) {
    const WorkerState* const worker = blamed(state, incident);
    return worker != nullptr && worker->description && !worker->description->answered &&
           elapsed(worker->description->asked_at, now) < kDescribe;
  });
}

std::vector<Incident> find_silent(const ClusterState& state, const HealthLimits& limits,
                                  TimePoint now) {
  std::vector<Incident> found;
  add_silent_hosts(state, limits, now, found);
  find_late_workers(state, limits, now, found);
  return found;
}

std::optional<Incident> find_suspect(const ClusterState& state, TimePoint now) {
  const WorkerState* silent = nullptr;
  const WorkerState* stuck = nullptr;
  for (const WorkerState& worker : state.job.current.workers) {
    if (worker.exit || worker.report || worker.left) continue;
    if (silent == nullptr || worker.last_heard < silent->last_heard) silent = &worker;
    if (is_in_collective(worker)) continue;
    if (stuck == nullptr || worker.last_moved < stuck->last_moved) stuck = &worker;
  }
  if (silent != nullptr && elapsed(silent->last_heard, now) >= kSuspicious) {
    return about(*silent, silence_of(*silent, now), now);
  }
  if (const WorkerState* const awaited = awaited_of(state)) stuck = awaited;
  if (stuck == nullptr || !stuck->training || elapsed(stuck->last_moved, now) < kSuspicious)
    return {};
  std::string what =
      "alive, but stuck for " + seconds(elapsed(stuck->last_moved, now)) + "; " + last_seen(*stuck);
  if (!state.job.current.incidents.empty())
    what += "; its peers gave up: " + state.job.current.incidents.front().text();
  return about(*stuck, std::move(what), now);
}

std::string doing(const WorkerState& worker, TimePoint now) {
  if (!worker.training) return {};
  std::string text = "at step " + std::to_string(worker.progress.step()) + " in " +
                     one_line(worker.progress.phase()) + " for " +
                     seconds(elapsed(worker.last_moved, now));
  for (const proto::CommTotal& comm : worker.progress.comm()) {
    if (comm.calls() == 0) continue;
    text += (comm.done() < comm.calls() ? ", within " : ", after ") + one_line(comm.newest()) +
            " (number " + std::to_string(comm.calls()) + " of communicator '" +
            one_line(comm.purpose()) + "')";
  }
  return text;
}

std::string agent_advice(const std::string& coordinator, const HostState& host) {
  if (host.local) {
    return "the pfc-agent that was started here runs, but has not connected; a limit of threads or "
           "processes (ulimit -u) may prevent that, and its messages above may say more";
  }
  if (host.resolves) {
    const bool by_token = coordinator.find('#') != std::string::npos;
    const std::string option =
        by_token ? "--join '" + coordinator + "'" : "--coordinator " + coordinator;
    return (host.answered ? ""
                          : "no name server has answered for its name (check /etc/resolv.conf, or "
                            "give an IPv4 address); ") +
           ("run there: pfc-agent " + option + " --host " + host.name);
  }
  return "the name \"" + host.name +
         "\" does not resolve on this machine; check its spelling in --hosts";
}

std::string last_seen(const WorkerState& worker) {
  if (!worker.training) return {};
  std::string text = "last seen at step " + std::to_string(worker.progress.step());
  if (!worker.progress.phase().empty()) text += " in " + worker.progress.phase();
  return text;
}

}  // namespace pfc
