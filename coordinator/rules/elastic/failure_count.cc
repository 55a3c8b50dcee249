#include "coordinator/rules/elastic/failure_count.h"

#include <algorithm>
#include <csignal>
#include <set>

namespace pfc {
namespace {

/// Counts the generation's failures of this kind: each failed slot once, and each host once, even
/// if several of its slots failed.
void add_failures(FailureHistory& blame, const GenerationState& generation, Incident::Kind kind,
                  TimePoint now) {
  std::set<std::string> lost, failed;
  std::set<Rank> ranks;
  for (const Incident& incident : generation.incidents) {
    if (incident.kind != kind || kind == Incident::Kind::kPeerLost) continue;
    if (!incident.host.empty()) {
      if (!lost.insert(incident.host).second) continue;
      add_failure(blame, incident.host, kWholeHost, kLostHostWeight, incident.what, now);
    } else if (incident.rank && ranks.insert(*incident.rank).second) {
      const WorkerState& worker = generation.workers.at(*incident.rank);
      add_failure(blame, worker.host, worker.slot, 1, incident.what, now);
      if (lost.contains(worker.host) || !failed.insert(worker.host).second) continue;
      add_failure(blame, worker.host, kWholeHost, 1, incident.what, now);
    }
  }
}

/// Excludes slots and hosts at their limit, if the job can continue without them.
void leave_some_out(const ClusterState& state, const ElasticConfig& config, FailureHistory& blame,
                    TimePoint now) {
  for (FailureRecord& record : blame.records) {
    if (!is_at_limit(record, now) || is_left_out(record, now)) continue;
    const FailureRecord before = record;
    leave_out(record, now);
    if (!plan_members(state, blame, config, now).enough()) record = before;
  }
}

/// Returns where the worker crashed. If it had not joined, its exit code stands for the place.
/// Returns nothing if it had joined but not begun to train, or if SIGKILL ended it, because that
/// comes from outside the job.
std::optional<CrashSite> site_of(const GenerationState& generation, const Incident& cause) {
  if (cause.kind != Incident::Kind::kCrash || !cause.rank) return {};
  const WorkerState& worker = generation.workers.at(*cause.rank);
  const bool was_killed = worker.exit && worker.exit->signal == SIGKILL && !worker.report;
  if (!worker.joined && worker.exit && worker.exit->signal == 0) {
    return CrashSite{.rank = *cause.rank,
                     .workers = static_cast<int>(generation.workers.size()),
                     .step = kBeforeJoining - worker.exit->code};
  }
  if (!worker.training || was_killed) return {};
  return CrashSite{.rank = *cause.rank,
                   .workers = static_cast<int>(generation.workers.size()),
                   .step = worker.progress.step()};
}

}  // namespace

FailureCount count_failure(const ClusterState& state, const ElasticConfig& config,
                           const Incident& cause, TimePoint now) {
  const GenerationState& generation = state.job.current;
  FailureCount count{.blame = state.job.blame, .budget = state.job.budget};
  // After progress, even a short generation does not predict another quick failure.
  if (state.job.saved.at >= generation.started_at) count.budget.quick = 0;
  spend_restart(count.budget, config.first_pause, generation.started_at, now);
  if (const auto site = site_of(generation, cause)) {
    count.is_hopeless = count_crash(count.budget, *site) >= kSameCrashes;
  } else {
    count.budget.same_crash = 0;
  }
  add_failures(count.blame, generation, cause.kind, now);
  leave_some_out(state, config, count.blame, now);
  // A crash before joining may be the fault of the slot's host. If the slot is excluded now, the
  // job may succeed elsewhere.
  if (count.is_hopeless && count.budget.last_crash.step <= kBeforeJoining) {
    const WorkerState& worker = generation.workers.at(*cause.rank);
    count.is_hopeless = !is_left_out(count.blame, worker.host, worker.slot, now);
  }
  return count;
}

std::optional<FailureHistory> take_back(const ClusterState& state, const ElasticConfig& config,
                                        TimePoint now) {
  FailureHistory blame = state.job.blame;
  FailureRecord* first = nullptr;
  for (FailureRecord& record : blame.records) {
    if (is_left_out(record, now) && (first == nullptr || *record.until < *first->until)) {
      first = &record;
    }
  }
  if (first == nullptr || !plan_members(state, FailureHistory(), config, now).enough()) return {};
  first->until = first->last = now;
  return blame;
}

FailureHistory leave_hosts_out(const ClusterState& state, std::span<const std::string> hosts,
                               const std::string& cause, TimePoint now) {
  FailureHistory blame = state.job.blame;
  for (const std::string& host : hosts) {
    add_failure(blame, host, kWholeHost, kHostLimit, cause, now);
    for (FailureRecord& record : blame.records) {
      if (record.host == host && record.slot == kWholeHost) leave_out(record, now);
    }
  }
  return blame;
}

}  // namespace pfc
