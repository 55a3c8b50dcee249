#include "coordinator/rules/decisions/restart.h"

#include <algorithm>

#include "common/counted.h"
#include "coordinator/rules/decisions/end_of_job.h"
#include "coordinator/rules/elastic/failure_count.h"
#include "coordinator/rules/verdict.h"

namespace pfc {
namespace {

// Pause before a failed network is measured again while a job is running.
constexpr std::chrono::milliseconds kMeasureAgain{1'000};

/// Returns the agents by host; empty for hosts without a member.
std::vector<std::string> agents_of(const ClusterState& state, const Plan& plan) {
  std::vector<std::string> agents(state.hosts.size());
  auto member = plan.members.begin();
  for (std::size_t i = 0; i < state.hosts.size(); ++i) {
    const HostState& host = state.hosts[i];
    if (member == plan.members.end() || member->host != host.name) continue;
    agents[i] = host.agent_id;
    while (member != plan.members.end() && member->host == host.name) ++member;
  }
  return agents;
}

/// Returns whether all these hosts were measured together, perhaps with others.
bool was_measured(const NetworkState& network, const std::vector<std::string>& agents) {
  if (network.agents.size() != agents.size()) return false;
  for (std::size_t i = 0; i < agents.size(); ++i) {
    if (!agents[i].empty() && agents[i] != network.agents[i]) return false;
  }
  return true;
}

/// Returns whether the network may be broken: workers have lost each other for an unknown reason,
/// and the last measurement succeeded, but it ended before that.
bool is_suspected(const NetworkState& network, const ClusterState& state) {
  const auto& incidents = state.job.current.incidents;
  return !incidents.empty() && cause_is_unknown(state) && network.ended_at && !network.failed &&
         *network.ended_at < incidents.front().at;
}

/// Continues without hosts that have been unreachable for host_patience. Returns nothing if it is
/// too early, there are none, or too few hosts remain.
std::optional<Decision> leave_unreached_out(const ClusterState& state,
                                            const RendezvousConfig& config, TimePoint now) {
  const std::vector<std::string>& apart = state.network.apart;
  const TimePoint since = state.job.current.incidents.front().at;
  if (apart.empty() || now < since + config.elastic.host_patience) return {};
  FailureHistory blame = leave_hosts_out(state, apart, state.network.text, now);
  if (!plan_members(state, blame, config.elastic, now).enough()) return {};
  return act(action::ChangeBlame{std::move(blame)},
             "continuing without " + listed(apart) + ": " + state.network.text);
}

/// Measures again, because a lost link may come back. `since`: start of the search for members.
Decision measure_again(const ClusterState& state, const RendezvousConfig& config, const Plan& plan,
                       TimePoint since, TimePoint now) {
  if (now >= since + config.limits.start) {
    return blame({network_problem(state, now)});
  }
  if (now < *state.network.ended_at + kMeasureAgain) return wait_for(state.network.text);
  return act(action::MeasureNetwork{agents_of(state, plan)}, "measuring the network again");
}

/// Returns hosts that have become silent while the next generation is awaited.
std::vector<Incident> silent_hosts(const ClusterState& state, const HealthLimits& limits,
                                   TimePoint now) {
  std::vector<Incident> silent = find_silent(state, limits, now);
  std::erase_if(silent, [](const Incident& incident) { return incident.host.empty(); });
  return silent;
}

Decision count(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  const Incident& cause = root_cause(state.job.current);
  FailureCount counted = count_failure(state, config.elastic, cause, now);
  if (!counted.is_hopeless) {
    return act(action::Count{std::move(counted.blame), counted.budget}, cause.text());
  }
  Incident again = cause;
  const std::int64_t step = counted.budget.last_crash.step;
  again.what +=
      "; this has now happened " + std::to_string(kSameCrashes) + " times " +
      (step <= kBeforeJoining
           ? "before the worker joined: check the program and its libraries"
           : "at step " + std::to_string(step) +
                 ": look for the cause in the data of this step or in the program, not in the "
                 "machine");
  again.permanent = true;
  return blame({std::move(again)});
}

/// Returns the missing hosts: "b, c"; empty if none.
std::string awaited(const ClusterState& state, TimePoint now) {
  std::vector<std::string> names;
  for (const HostState& host : state.hosts) {
    if (!host.registered || is_quiet(host, now)) names.push_back(host.name);
  }
  return listed(names);
}

/// Returns the incident that ends a job with too few slots. `missing`: hosts waited for; empty:
/// all are present, but slots are excluded or have lost their GPU.
Incident too_few(Incident cause, const RendezvousConfig& config, const Plan& plan,
                 const std::string& missing, TimePoint now) {
  const std::string time = std::to_string(config.limits.start.count() / 1000) + " s";
  if (!cause.what.empty()) cause.what += "; ";
  cause.what += missing.empty() ? "there are slots for " + counted(plan.size(), "worker") +
                                      ", and at least " + std::to_string(plan.least) + " are needed"
                                : missing + " has not registered again after " + time;
  cause.permanent = true;
  cause.at = now;
  return cause;
}

/// Returns the absent host whose output folder alone has the state to resume from; null if there
/// is none.
const HostState* absent_holder(const ClusterState& state, TimePoint now) {
  const auto host = std::ranges::find(state.hosts, holder_of(state, now), &HostState::name);
  if (host == state.hosts.end()) return nullptr;
  return is_usable(*host) && !is_quiet(*host, now) ? nullptr : &*host;
}

/// Waits for that host as long as for any required host.
std::optional<Decision> wait_for_holder(const ClusterState& state, const RendezvousConfig& config,
                                        TimePoint since, Incident cause, TimePoint now) {
  const HostState* const holder = absent_holder(state, now);
  if (holder == nullptr) return {};
  const std::string checkpoint = "host " + holder->name +
                                 ", whose output folder has the newest checkpoint (step " +
                                 std::to_string(state.job.saved.checkpoint_step) + ")";
  if (now < since + config.limits.start) {
    return wait_for("waiting for " + checkpoint + "; restart its agent");
  }
  if (!cause.what.empty()) cause.what += "; ";
  cause.what += checkpoint +
                " did not return within --start-timeout; restart its agent and submit "
                "the job with \"resume\": true, or submit it with \"resume\": true on "
                "the other hosts, which may have an older checkpoint or none";
  cause.permanent = true;
  cause.at = now;
  return blame({std::move(cause)});
}

/// Returns the next decision while the planned generation lacks members; nothing when it can begin.
/// `since`: end of the last generation. `cause` is blamed if too few hosts come.
std::optional<Decision> gather_for_restart(const ClusterState& state,
                                           const RendezvousConfig& config, const Plan& plan,
                                           TimePoint since, const Incident& cause, TimePoint now) {
  if (!plan.enough()) {
    if (auto blame = take_back(state, config.elastic, now)) {
      return act(action::ChangeBlame{std::move(*blame)},
                 "too few slots are left; using an excluded slot again");
    }
    const std::string missing = awaited(state, now);
    if (now >= since + config.limits.start) {
      return blame({too_few(cause, config, plan, missing, now)});
    }
    const std::string needs = plan.least == state.job.least_workers
                                  ? "; the job needs at least " + counted(plan.least, "worker")
                                  : std::string();
    return wait_for((missing.empty() ? "waiting for slots: found " + std::to_string(plan.size()) +
                                           ", expected at least " + std::to_string(plan.least)
                                     : "waiting for " + missing + " to register again") +
                    needs);
  }
  const std::vector<std::string> lost = lost_hosts(state, now);
  if (!plan.complete() && !lost.empty() && now < since + config.elastic.host_patience) {
    return wait_for("waiting a moment for " + listed(lost) + " to come back");
  }
  return wait_for_holder(state, config, since, cause, now);
}

}  // namespace

bool may_restart(const ClusterState& state, const RendezvousConfig& config) {
  return (state.job.current.counted || restarts_left(state, config) > 0) &&
         state.job.current.number > 0 && !state.job.stop && !state.job.terminated_at &&
         std::ranges::none_of(state.job.current.incidents, &Incident::permanent) &&
         std::ranges::none_of(state.job.current.workers, has_completed);
}

int restarts_left(const ClusterState& state, const RendezvousConfig& config) {
  return std::max(config.max_restarts - state.job.budget.spent, 0);
}

std::optional<Decision> see_to_network(const ClusterState& state, const Plan& plan) {
  std::vector<std::string> agents = agents_of(state, plan);
  std::ptrdiff_t hosts = 0;
  bool have_addresses = true;
  auto member = plan.members.begin();
  for (const HostState& host : state.hosts) {
    if (member == plan.members.end() || member->host != host.name) continue;
    hosts += 1;
    have_addresses = have_addresses && !host.addresses.empty();
    while (member != plan.members.end() && member->host == host.name) ++member;
  }
  if (hosts < 2 || !have_addresses) return {};
  const std::string measuring = "measuring the network between " + counted(hosts, "host");
  const NetworkState& network = state.network;
  if (!was_measured(network, agents) ||
      (network.ended_at && network.failed && network.agents != agents)) {
    return act(action::MeasureNetwork{std::move(agents)}, measuring);
  }
  if (!network.ended_at) return wait_for(measuring);
  if (is_suspected(network, state)) {
    return act(action::MeasureNetwork{std::move(agents)}, measuring + ", which may be broken");
  }
  return {};
}

bool network_failed(const ClusterState& state, const Plan& plan) {
  // A failed measurement of more hosts proves nothing: fewer hosts may reach each other, and a
  // single host needs no network.
  return state.network.failed && state.network.agents == agents_of(state, plan);
}

Incident network_problem(const ClusterState& state, TimePoint now) {
  return {.kind = Incident::Kind::kCrash,
          .rank = {},
          .host = {},
          .who = "network",
          .what = state.network.text,
          .at_start = true,
          .permanent = true,
          .at = now};
}

Decision go_on(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  const TimePoint since = state.job.current.incidents.front().at;
  // Find the cause.
  if (cause_is_unknown(state)) {
    if (auto suspect = find_suspect(state, now)) {
      return ask_and_blame(state, {std::move(*suspect)}, now);
    }
    if (now < since + config.grace)
      return wait_for("a worker has lost its peers; waiting for the cause");
  }
  if (auto silent = silent_hosts(state, config.limits, now); !silent.empty()) {
    return blame(std::move(silent));
  }
  if (!state.job.current.counted) return count(state, config, now);
  if (now < state.job.budget.not_before) {
    return wait_for("several generations failed soon after their start; pausing before the next");
  }
  // Choose the members.
  const Plan plan = plan_members(state, config.elastic, now);
  if (auto wait =
          gather_for_restart(state, config, plan, since, root_cause(state.job.current), now)) {
    return *wait;
  }
  // Check that they reach each other.
  if (auto measure = see_to_network(state, plan)) return *measure;
  if (network_failed(state, plan)) {
    if (auto without = leave_unreached_out(state, config, now)) return *without;
    return measure_again(state, config, plan, since, now);
  }
  const Incident& cause = root_cause(state.job.current);
  return act(action::StartGeneration{.members = plan.members, .cause = cause, .why = {}},
             line_of(state.job.current, cause));
}

Decision begin_again(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  const std::string why = "the coordinator was down while workers connected";
  const TimePoint since = state.job.current.started_at;
  const Plan plan = plan_members(state, config.elastic, now);
  const Incident away{.kind = Incident::Kind::kCrash,
                      .rank = {},
                      .host = {},
                      .who = "coordinator",
                      .what = "it was down while workers connected",
                      .at_start = true,
                      .permanent = true,
                      .at = now};
  if (auto wait = gather_for_restart(state, config, plan, since, away, now)) return *wait;
  if (auto measure = see_to_network(state, plan)) return *measure;
  if (network_failed(state, plan)) return measure_again(state, config, plan, since, now);
  return act(action::StartGeneration{.members = plan.members, .cause = {}, .why = why}, why);
}

}  // namespace pfc
