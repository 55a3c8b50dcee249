#include "coordinator/rules/rendezvous.h"

#include <algorithm>

#include "common/counted.h"
#include "coordinator/rules/decisions/end_of_job.h"
#include "coordinator/rules/decisions/planned_change.h"
#include "coordinator/rules/verdict.h"

namespace pfc {
namespace {

/// Returns an incident if the job requires GPUs and a host has none.
std::optional<Incident> host_without_gpu(const ClusterState& state, TimePoint now) {
  if (state.job.device != DeviceChoice::kCuda) return {};
  for (const HostState& host : state.hosts) {
    if (!host.registered || host.no_gpu.empty()) continue;
    return Incident{.kind = Incident::Kind::kCrash,
                    .rank = {},
                    .host = {},
                    .who = "host " + host.name,
                    .what = "device: found \"cuda\", but " + host.no_gpu,
                    .at_start = true,
                    .permanent = true,
                    .at = now};
  }
  return {};
}

/// Returns whether the job starts now without hosts that did not come in time.
bool begins_smaller(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (state.job.current.number > 0 || now < state.job.started_at + config.limits.start) {
    return false;
  }
  if (config.elastic.min_workers == 0 && config.elastic.spares == 0) return false;
  return plan_members(state, config.elastic, now).enough();
}

/// Returns "--min-workers 4 and --spares 1".
std::string asked_for(const ElasticConfig& config) {
  std::string text;
  if (config.min_workers > 0) text = "--min-workers " + std::to_string(config.min_workers);
  if (config.spares > 0) {
    text += (text.empty() ? "" : " and ") + ("--spares " + std::to_string(config.spares));
  }
  return text;
}

/// Returns an incident if all hosts together have too few slots for the options.
std::optional<Incident> too_few_slots(const ClusterState& state, const ElasticConfig& config,
                                      TimePoint now) {
  const int slots = slots_of(state.hosts);
  const bool all_spare = config.spares >= slots;
  if (!all_spare && config.min_workers <= wanted_workers(state, config)) return {};
  return Incident{.kind = Incident::Kind::kCrash,
                  .rank = {},
                  .host = {},
                  .who = "hosts",
                  .what = "found " + counted(slots, "slot") + " in total, too few for " +
                          asked_for(config) + "; give smaller numbers, or more hosts",
                  .at_start = true,
                  .permanent = true,
                  .at = now};
}

/// Returns the incident for hosts with fewer GPUs than slots.
Incident too_few_gpus(const ClusterState& state, const Plan& plan, TimePoint now) {
  Incident lacking{.kind = Incident::Kind::kCrash,
                   .rank = {},
                   .host = {},
                   .who = "hosts",
                   .what = "found GPUs for " + counted(plan.size(), "worker") +
                           ", expected at least " + std::to_string(plan.least),
                   .at_start = true,
                   .permanent = true,
                   .at = now};
  for (const HostState& host : state.hosts) {
    if (host.gpus >= host.slots) continue;
    lacking.what += "; host " + host.name + " has " + counted(std::max(host.gpus, 0), "GPU") +
                    " for " + counted(host.slots, "slot");
  }
  lacking.what += "; give fewer slots, or --min-workers";
  return lacking;
}

Decision gather_hosts(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (auto lacking = host_without_gpu(state, now)) {
    return blame({std::move(*lacking)});
  }
  const std::string missing = missing_hosts(state);
  if (!missing.empty() && !begins_smaller(state, config, now)) {
    return wait_for("waiting for " + missing + " to register");
  }
  if (missing.empty()) {
    if (auto lacking = too_few_slots(state, config.elastic, now)) {
      return blame({std::move(*lacking)});
    }
  }
  const Plan plan = plan_members(state, config.elastic, now);
  if (missing.empty() && !plan.enough()) return blame({too_few_gpus(state, plan, now)});
  if (auto measure = see_to_network(state, plan)) return *measure;
  if (network_failed(state, plan)) return blame({network_problem(state, now)});
  return act(action::StartGeneration{.members = plan.members, .cause = {}, .why = {}},
             missing.empty() ? "all hosts have registered" : "continuing without " + missing);
}

Decision watch_training(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (all_exited(state)) return act(action::Finish(), "all workers have completed");
  if (auto change = change_members(state, config, now)) return *change;
  if (!all_joined(state)) return wait_for("waiting for workers to join");
  return wait_for("training");
}

void release(ClusterState& state, const action::ReleaseHosts& hosts) {
  for (const std::string& name : hosts.hosts) find_host(state, name)->registered = false;
}

}  // namespace

void apply(ClusterState& state, const Action& action, TimePoint now) {
  JobState& job = state.job;
  std::visit(Overloaded{
                 [&](const action::Blame& a) { add_incident(state, a.incident); },
                 [&](const action::Count& a) {
                   job.blame = a.blame;
                   job.budget = a.budget;
                   job.current.counted = true;
                 },
                 [&](const action::ChangeBlame& a) { job.blame = a.blame; },
                 [&](const action::MeasureNetwork& a) {
                   state.network = {.agents = a.agents,
                                    .changed = state.network.changed,
                                    .text = state.network.text};
                 },
                 [&](const action::ReleaseHosts& a) { release(state, a); },
                 [&](const action::BeginRegroup& a) {
                   job.current.regroup = Regroup{.reason = a.reason, .at = now, .within = a.within};
                 },
                 [&](const action::StopForHost& a) { job.stop = a.request; },
                 [&](const action::StartGeneration& a) {
                   start_generation(state, a.members, a.cause, now);
                 },
                 [&](const action::Describe& a) {
                   find_worker(state, a.rank)->description = WorkerDescription{.asked_at = now};
                 },
                 [&](const action::AskToStop&) { job.current.stop_sent = true; },
                 [&](const action::Terminate&) { job.terminated_at = now; },
                 [&](const action::Kill&) { job.killed_at = now; },
                 [](const action::Finish&) {},
             },
             action);
}

Decision decide(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  // A host must be drained and the job cannot continue without it.
  if (auto stop = stop_for_host(state, config, now)) return *stop;
  if (auto silent = release_silent(state, config, now)) return *silent;
  // An incident ends the generation, independent of everything else.
  if (!state.job.current.incidents.empty()) {
    return may_restart(state, config) ? go_on(state, config, now)
                                      : end_after_failure(state, config, now);
  }
  // A stop was requested.
  if (state.job.stop) return end_after_stop(state, config, now);
  // The generation was lost with the coordinator that began it.
  if (state.job.current.lost) return begin_again(state, config, now);
  // Hosts are missing at the start, but there are enough.
  if (begins_smaller(state, config, now)) return gather_hosts(state, config, now);
  // A host or worker never came, is silent, or does not exit.
  if (auto late = find_overdue(state, config.limits, now); !late.empty()) {
    return ask_and_blame(state, std::move(late), now);
  }
  // Before the first generation.
  if (state.job.current.number == 0) return gather_hosts(state, config, now);
  // Hosts are added or removed as requested.
  if (state.job.current.regroup) return regroup(state, config, now);
  return watch_training(state, config, now);
}

}  // namespace pfc
