#include "coordinator/rules/decisions/planned_change.h"

#include <algorithm>

#include "coordinator/rules/decisions/restart.h"
#include "coordinator/rules/elastic/failure_count.h"
#include "coordinator/rules/verdict.h"

namespace pfc {
namespace {

std::string reason_of(const HostState& host) {
  return "host " + host.name + " is leaving (" + host.leaving->reason + ")";
}

/// Counts the slots of hosts that are not being drained, available or not.
int slots_that_stay(const ClusterState& state) {
  int slots = 0;
  for (const HostState& host : state.hosts) slots += host.leaving ? 0 : host.slots;
  return slots;
}

/// Returns whether only this host's output folder has the state to resume from.
bool has_the_output(const ClusterState& state, const HostState& host) {
  const auto& workers = state.job.current.workers;
  return host.name == state.job.saved.checkpoint_host && !workers.empty() &&
         workers.front().host == host.name;
}

/// Returns whether the job can continue without the hosts being drained. Hosts with a silent agent
/// count as available.
bool goes_on_without(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  const bool loses_output = std::ranges::any_of(state.hosts, [&](const HostState& host) {
    return host.leaving && has_the_output(state, host);
  });
  if (loses_output) return false;
  if (state.job.current.number == 0) {
    return slots_that_stay(state) >= least_workers(state, config.elastic);
  }
  return usable_slots(state, now) >= least_workers(state, config.elastic);
}

/// Returns whether the host has workers that wait after saving, and its agent is silent.
bool keeps_workers_waiting(const HostState& host, TimePoint now) {
  return host.workers > 0 && is_usable(host) && is_quiet(host, now);
}

Decision start(const Plan& plan, std::string why) {
  Decision decision{.reason = why, .actions = {}};
  decision.actions.emplace_back(action::StartGeneration{plan.members, {}, std::move(why)});
  return decision;
}

Decision free_host(const ClusterState& state, const RendezvousConfig& config, const HostState& host,
                   TimePoint now) {
  if (may_have_trained(state)) {
    return act(action::BeginRegroup{reason_of(host), std::min(config.stop, host.leaving->within)},
               reason_of(host));
  }
  const Plan plan = plan_members(state, config.elastic, now);  // no checkpoint is needed
  if (!plan.enough()) return wait_for("waiting for hosts that do not answer");
  if (auto measure = see_to_network(state, plan)) return *measure;
  return start(plan, reason_of(host));
}

Decision grow(const ClusterState& state, const RendezvousConfig& config, const Growth& growth,
              TimePoint now) {
  const std::string who = (growth.hosts.size() == 1 ? "host " : "hosts ") + listed(growth.hosts);
  if (auto measure = see_to_network(state, growth.plan)) return *measure;
  if (network_failed(state, growth.plan)) {
    return act(action::ChangeBlame{leave_hosts_out(state, growth.hosts, state.network.text, now)},
               who + " cannot join: " + state.network.text);
  }
  const std::string why = who + (growth.hosts.size() == 1 ? " joins" : " join");
  const bool saved = state.job.saved.at > growth.since;
  const bool is_late = now >= growth.since + config.elastic.join_patience;
  if ((saved || is_late) && may_have_trained(state)) {
    return act(action::BeginRegroup{why, config.stop}, why);
  }
  return wait_for("training; " + why + " at the next checkpoint");
}

}  // namespace

std::optional<Decision> stop_for_host(const ClusterState& state, const RendezvousConfig& config,
                                      TimePoint now) {
  if (state.job.stop) return {};
  for (const HostState& host : state.hosts) {
    if (!host.leaving || (state.job.current.number > 0 && host.workers == 0)) continue;
    if (goes_on_without(state, config, now)) return {};
    const std::string why =
        reason_of(host) +
        (has_the_output(state, host) ? ", and only its output folder has the checkpoints" : "");
    return act(
        action::StopForHost{
            {.reason = why, .at = now, .leaving = host.name, .within = host.leaving->within}},
        reason_of(host));
  }
  return {};
}

std::optional<Decision> release_silent(const ClusterState& state, const RendezvousConfig& config,
                                       TimePoint now) {
  const bool all_are_needed =
      state.job.current.number == 0 &&
      least_workers(state, config.elastic) == wanted_workers(state, config.elastic);
  if (all_are_needed) return {};
  action::ReleaseHosts release;
  for (const HostState& host : state.hosts) {
    const bool silent = host.registered && now - host.last_heard >= config.limits.silence;
    if (silent && host.workers == 0) release.hosts.push_back(host.name);
  }
  if (release.hosts.empty()) return {};
  const std::string reason = listed(release.hosts) + " (no worker runs there): no answer";
  return act(std::move(release), reason);
}

std::optional<Decision> change_members(const ClusterState& state, const RendezvousConfig& config,
                                       TimePoint now) {
  if (std::ranges::any_of(state.job.current.workers, has_ended_well)) return {};
  if (const HostState* const host = leaving_host(state)) {
    return free_host(state, config, *host, now);
  }
  if (!all_joined(state)) return {};
  if (const auto growth = possible_growth(state, config.elastic, now)) {
    return grow(state, config, *growth, now);
  }
  return {};
}

Decision regroup(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  const Regroup& change = *state.job.current.regroup;
  if (std::ranges::any_of(state.job.current.workers, has_completed)) {
    return all_exited(state) ? act(action::Finish(), "all workers have completed")
                             : wait_for("training");
  }
  const std::string saves = change.reason + ": the workers write a checkpoint and continue";
  if (!state.job.current.stop_sent) return act(action::AskToStop(), saves);
  const bool saved = std::ranges::none_of(state.job.current.workers, takes_part);
  if (!saved && now < change.at + change.within) {
    return wait_for(saves);
  }
  const bool some_are_quiet = std::ranges::any_of(
      state.hosts, [&](const HostState& host) { return keeps_workers_waiting(host, now); });
  const Plan plan = plan_members(state, config.elastic, now);
  if (!plan.enough() || (some_are_quiet && now < change.at + change.within)) {
    return wait_for("waiting for hosts that do not answer");
  }
  if (auto measure = see_to_network(state, plan)) return *measure;
  return start(plan, change.reason);
}

}  // namespace pfc
