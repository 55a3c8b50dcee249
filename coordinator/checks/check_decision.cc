#include "coordinator/checks/check_decision.h"

#include <algorithm>
#include <utility>

#include "common/counted.h"
#include "coordinator/rules/decisions/end_of_job.h"
#include "coordinator/rules/decisions/restart.h"

namespace pfc {
namespace {

/// Plans a worker for every slot of the available hosts. Workers report missing GPUs.
Plan all_slots(const ClusterState& state) {
  Plan plan;
  for (const HostState& host : state.hosts) {
    if (!is_usable(host)) continue;
    for (int slot = 0; slot < host.slots; ++slot) {
      plan.members.push_back({.rank = plan.size(), .host = host.name, .slot = slot});
    }
  }
  return plan;
}

bool is_apart(const ClusterState& state, const std::string& host) {
  return state.network.failed && std::ranges::count(state.network.apart, host) > 0;
}

/// Returns the workers that have tested their own host, on hosts that reach each other.
Plan those_that_are_ready(const ClusterState& state) {
  Plan plan;
  for (const WorkerState& worker : state.job.current.workers) {
    if (!worker.paused || worker.exit || is_apart(state, worker.host)) continue;
    plan.members.push_back({.rank = plan.size(),
                            .host = worker.host,
                            .slot = worker.slot,
                            .survivor = worker.incarnation});
  }
  return plan;
}

Decision gather_for_check(const ClusterState& state, const CheckLimits& limits, TimePoint now) {
  const std::string missing = missing_hosts(state);
  if (!missing.empty() && now < state.job.started_at + limits.gather) {
    return wait_for("waiting for " + missing + " to register");
  }
  const Plan plan = all_slots(state);
  if (plan.members.empty()) return act(action::Finish(), "no host has registered");
  if (auto measure = see_to_network(state, plan)) return *measure;
  return act(action::StartGeneration{.members = plan.members, .cause = {}, .why = {}},
             missing.empty() ? "all hosts have registered" : "continuing without " + missing);
}

/// Returns whether the worker's agent is gone.
bool is_lost(const ClusterState& state, const WorkerState& worker,
             std::chrono::milliseconds silence, TimePoint now) {
  const auto host = std::ranges::find(state.hosts, worker.host, &HostState::name);
  return !host->registered || now - host->last_heard >= silence;
}

/// Lists unfinished workers: "a (reading images), b".
std::string still_busy(const ClusterState& state, std::chrono::milliseconds silence,
                       TimePoint now) {
  std::vector<std::string> busy;
  for (const WorkerState& worker : state.job.current.workers) {
    if (worker.exit || worker.paused || is_lost(state, worker, silence, now)) continue;
    const std::string& doing = worker.progress.phase();
    std::string text = worker.host + (doing.empty() ? "" : " (" + doing + ")");
    if (busy.empty() || !busy.back().starts_with(worker.host)) busy.push_back(std::move(text));
  }
  return listed(busy);
}

Decision look_at_hosts(const ClusterState& state, const RendezvousConfig& config,
                       const CheckLimits& limits, TimePoint now) {
  if (state.job.terminated_at) return end_by_force(state, config, now);
  const std::string busy = still_busy(state, config.limits.silence, now);
  if (!busy.empty() && now < state.job.current.started_at + limits.alone) {
    return wait_for("waiting for the tests of " + busy);
  }
  const Plan plan = those_that_are_ready(state);
  if (plan.members.empty()) {
    return all_exited(state) ? act(action::Finish(), "no worker is left")
                             : end_by_force(state, config, now);
  }
  const std::string why = counted(plan.size(), "worker") + " connect";
  return act(action::StartGeneration{.members = plan.members, .cause = {}, .why = why}, why);
}

}  // namespace

Decision decide_check(const ClusterState& state, const RendezvousConfig& config,
                      const CheckLimits& limits, TimePoint now) {
  const GenerationState& current = state.job.current;
  if (state.job.stop) {
    return all_exited(state) ? act(action::Finish(), "the check was stopped")
                             : end_by_force(state, config, now);
  }
  if (current.number == 0) return gather_for_check(state, limits, now);
  if (current.number == kCheckAlone) return look_at_hosts(state, config, limits, now);
  if (all_exited(state)) return act(action::Finish(), "the check is complete");
  if (state.job.terminated_at || now >= current.started_at + limits.together) {
    return end_by_force(state, config, now);
  }
  return wait_for("timing collectives");
}

}  // namespace pfc
