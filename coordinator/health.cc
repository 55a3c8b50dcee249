#include "coordinator/health.h"

#include <algorithm>

#include "common/one_line.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

// Heartbeats come every second, so at least three are missing; and no peer gives up sooner.
constexpr milliseconds kSuspicious{4'000};

milliseconds elapsed(TimePoint from, TimePoint now) {
  return std::chrono::duration_cast<milliseconds>(now - from);
}

std::string seconds(milliseconds time) {
  if (time < milliseconds{1'000}) return std::to_string(time.count()) + " ms";
  return std::to_string(time.count() / 1000) + " s";
}

std::string silence_of(const WorkerState& worker, TimePoint now) {
  const std::string seen = last_seen(worker);
  return "silent for " + seconds(elapsed(worker.last_heard, now)) +
         (seen.empty() ? "" : "; " + seen);
}

Failure late_at_start(std::string who, std::string what, TimePoint now) {
  return {.kind = Failure::Kind::kCrash,
          .rank = {},
          .who = std::move(who),
          .what = std::move(what),
          .at_start = true,
          .at = now};
}

Failure about(const WorkerState& worker, std::string what, TimePoint now) {
  return {.kind = Failure::Kind::kSilence,
          .rank = worker.rank,
          .who = name_of(worker),
          .what = std::move(what),
          .at_start = false,
          .at = now};
}

/// What to do about the hosts that have not registered.
std::string missing_hosts_advice(const ClusterState& state) {
  const HostState* only = nullptr;
  for (const HostState& host : state.hosts) {
    if (host.registered) continue;
    if (!host.resolves) return agent_advice(state.address, host);
    if (only != nullptr) return agent_advice(state.address, {.name = "NAME"});
    only = &host;
  }
  return agent_advice(state.address, *only);
}

/// Workers that have joined and do not come to their first step. They wait for each other, so one
/// that goes on excuses all, and of those that do not, the one that has moved least is the cause.
std::optional<Failure> stuck_before_training(const ClusterState& state, const HealthLimits& limits,
                                             TimePoint now) {
  const WorkerState* stuck = nullptr;
  for (const WorkerState& worker : state.workers) {
    if (worker.training || worker.report || worker.exit) continue;
    if (elapsed(worker.last_moved, now) < limits.start) return {};
    if (stuck == nullptr || worker.last_moved < stuck->last_moved) stuck = &worker;
  }
  if (stuck == nullptr) return {};
  const std::string& doing = stuck->progress.phase();
  Failure failure = late_at_start(
      name_of(*stuck),
      "has not begun to train: no progress for " + seconds(limits.start) +
          (doing.empty() ? "" : " in: " + one_line(doing)) + "; --start-timeout sets this time",
      now);
  failure.rank = stuck->rank;
  return failure;
}

std::optional<Failure> overdue_start(const ClusterState& state, const HealthLimits& limits,
                                     TimePoint now) {
  if (state.generation == 0) {
    if (elapsed(state.started_at, now) < limits.start) return {};
    const std::string missing = missing_hosts(state);
    if (missing.empty()) return {};
    const bool several = missing.find(',') != std::string::npos;
    return late_at_start((several ? "hosts " : "host ") + missing,
                         "no agent has registered after " + seconds(limits.start) + "; " +
                             missing_hosts_advice(state),
                         now);
  }
  if (all_joined(state)) return stuck_before_training(state, limits, now);
  if (elapsed(state.generation_started_at, now) < limits.start) return {};
  return late_at_start(missing_workers(state), "has not joined after " + seconds(limits.start),
                       now);
}

std::optional<Failure> silent_host(const ClusterState& state, const HealthLimits& limits,
                                   TimePoint now) {
  for (const HostState& host : state.hosts) {
    if (!host.registered || elapsed(host.last_heard, now) < limits.silence) continue;
    return Failure{
        .kind = Failure::Kind::kSilence,
        .rank = {},
        .who = "host " + host.name,
        .what = "its agent has been silent for " + seconds(elapsed(host.last_heard, now)),
        .at_start = state.generation == 0,
        .at = now};
  }
  return {};
}

std::optional<Failure> late_worker(const ClusterState& state, const HealthLimits& limits,
                                   TimePoint now) {
  if (!all_joined(state)) return {};
  for (const WorkerState& worker : state.workers) {
    if (worker.exit) continue;
    if (worker.report && elapsed(worker.report->at, now) >= limits.leave) {
      return about(worker,
                   "reported the end of its work, but still runs after " + seconds(limits.leave),
                   now);
    }
    if (!worker.report && elapsed(worker.last_heard, now) >= limits.silence) {
      return about(worker, silence_of(worker, now), now);
    }
  }
  return {};
}

}  // namespace

void worker_progressed(WorkerState& worker, const proto::Progress& progress, TimePoint now) {
  const bool moved =
      worker.training == progress.starting() || progress.step() != worker.progress.step() ||
      progress.phase() != worker.progress.phase() || progress.work() != worker.progress.work();
  if (moved) worker.last_moved = now;
  worker.training = !progress.starting();
  worker.progress = progress;
  worker.progress.clear_phases();  // samples of the past, kept by the metrics
}

std::optional<Failure> find_overdue(const ClusterState& state, const HealthLimits& limits,
                                    TimePoint now) {
  if (auto late = overdue_start(state, limits, now)) return late;
  return find_silent(state, limits, now);
}

std::optional<Failure> find_silent(const ClusterState& state, const HealthLimits& limits,
                                   TimePoint now) {
  if (auto late = silent_host(state, limits, now)) return late;
  return late_worker(state, limits, now);
}

std::optional<Failure> find_suspect(const ClusterState& state, TimePoint now) {
  const WorkerState* silent = nullptr;
  const WorkerState* stuck = nullptr;
  for (const WorkerState& worker : state.workers) {
    if (worker.exit || worker.report) continue;
    if (silent == nullptr || worker.last_heard < silent->last_heard) silent = &worker;
    if (stuck == nullptr || worker.last_moved < stuck->last_moved) stuck = &worker;
  }
  if (silent != nullptr && elapsed(silent->last_heard, now) >= kSuspicious) {
    return about(*silent, silence_of(*silent, now), now);
  }
  if (stuck == nullptr || !stuck->training || elapsed(stuck->last_moved, now) < kSuspicious)
    return {};
  std::string what =
      "alive, but stuck for " + seconds(elapsed(stuck->last_moved, now)) + "; " + last_seen(*stuck);
  if (!state.failures.empty()) what += "; its peers gave up: " + state.failures.front().text();
  return about(*stuck, std::move(what), now);
}

std::string agent_advice(const std::string& coordinator, const HostState& host) {
  if (host.resolves) {
    return "run there: pfc-agent --coordinator " + coordinator + " --host " + host.name;
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
