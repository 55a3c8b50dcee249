#include "coordinator/rendezvous.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "common/counted.h"
#include "coordinator/verdict.h"

namespace pfc {
namespace {

Decision wait_for(std::string reason) { return {.reason = std::move(reason), .actions = {}}; }

Decision act(Action action, std::string reason) {
  return {.reason = std::move(reason), .actions = {std::move(action)}};
}

/// What the coordinator itself has found. REQUIRES: incidents is not empty.
Decision blame(std::vector<Incident> incidents) {
  Decision decision{.reason = incidents.front().text(), .actions = {}};
  for (Incident& incident : incidents) decision.actions.emplace_back(action::Blame{incident});
  return decision;
}

std::string workers_left(const ClusterState& state) {
  return counted(std::ranges::count_if(state.job.current.workers,
                                       [](const WorkerState& worker) { return !worker.exit; }),
                 "worker");
}

// The end of the job.

/// SIGTERM; after a while SIGKILL; after another while the job ends without them.
Decision end_by_force(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (!state.job.terminated_at) return act(action::Terminate(), "ending " + workers_left(state));
  if (!state.job.killed_at) {
    if (now < *state.job.terminated_at + config.terminate)
      return wait_for("waiting for workers to end");
    return act(action::Kill(), "killing " + workers_left(state));
  }
  if (now < *state.job.killed_at + config.kill) return wait_for("waiting for killed workers");
  return act(action::Finish(), "giving up on " + workers_left(state));
}

/// Whether all that is known is that workers have lost a peer.
bool cause_is_unknown(const ClusterState& state) {
  return std::ranges::all_of(state.job.current.incidents, [](const Incident& incident) {
    return incident.kind == Incident::Kind::kPeerLost;
  });
}

/// Whether a worker still has something to do in this generation.
bool takes_part(const WorkerState& worker) { return !worker.exit && !worker.left; }

Decision end_after_failure(const ClusterState& state, const RendezvousConfig& config,
                           TimePoint now) {
  if (all_exited(state)) return act(action::Finish(), "the job has failed");
  if (state.job.terminated_at) return end_by_force(state, config, now);
  const Incident& first = state.job.current.incidents.front();
  const bool urgent = state.job.stop && state.job.stop->urgent;
  const bool may_notice =
      !first.at_start && !urgent && std::ranges::any_of(state.job.current.workers, takes_part);
  if (may_notice && now < first.at + config.grace) {
    return wait_for("a worker has failed; its peers are given time to notice");
  }
  if (cause_is_unknown(state)) {
    if (auto suspect = find_suspect(state, now)) return blame({std::move(*suspect)});
  }
  return end_by_force(state, config, now);
}

Clock::duration time_to_save(const StopRequest& stop, const RendezvousConfig& config) {
  return stop.leaving.empty() ? config.stop : std::min(config.stop, stop.within);
}

Decision end_after_stop(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (all_exited(state)) return act(action::Finish(), "the job has stopped");
  const bool may_save =
      may_have_trained(state) && !state.job.stop->urgent && !state.job.terminated_at;
  if (may_save && !state.job.current.stop_sent) return act(action::AskToStop(), "stopping");
  if (may_save) {
    auto silent = find_silent(state, config.limits, now);
    if (!silent.empty()) return blame(std::move(silent));
  }
  if (may_save && now < state.job.stop->at + time_to_save(*state.job.stop, config)) {
    return wait_for("stopping: workers write a checkpoint and end");
  }
  return end_by_force(state, config, now);
}

// The start of a generation.

/// A job that must have GPUs, and the host that has none.
std::optional<Incident> host_without_gpu(const ClusterState& state, DeviceChoice device,
                                         TimePoint now) {
  if (device != DeviceChoice::kCuda) return {};
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

// Between two attempts to measure a network that has failed while a job was running.
constexpr std::chrono::milliseconds kMeasureAgain{1'000};

std::string measuring(const ClusterState& state) {
  return "measuring the network between " + counted(std::ssize(state.hosts), "host");
}

/// What must be done before the workers of all hosts can connect; empty: nothing. A host whose
/// agent tells no address is reached by that of its connection. REQUIRES: no host is missing.
std::optional<Decision> see_to_network(const ClusterState& state) {
  if (state.hosts.size() < 2) return {};
  if (std::ranges::any_of(state.hosts,
                          [](const HostState& host) { return host.addresses.empty(); })) {
    return {};
  }
  if (state.network.agents != agents_of(state)) {
    return act(action::MeasureNetwork(), measuring(state));
  }
  if (!state.network.ended_at) return wait_for(measuring(state));
  return {};
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

Decision gather_hosts(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (auto lacking = host_without_gpu(state, config.device, now)) {
    return blame({std::move(*lacking)});
  }
  const std::string missing = missing_hosts(state);
  if (!missing.empty()) return wait_for("waiting for " + missing + " to register");
  if (auto measure = see_to_network(state)) return *measure;
  if (state.network.failed) return blame({network_problem(state, now)});
  return act(action::StartGeneration{.members = assign_ranks(state.hosts), .cause = {}},
             "all hosts are here");
}

bool is_blamed(const GenerationState& generation, const WorkerState& worker) {
  return std::ranges::any_of(generation.incidents, [&](const Incident& incident) {
    return incident.host == worker.host ||
           (incident.rank == worker.rank && incident.kind != Incident::Kind::kPeerLost);
  });
}

/// By host and slot, so that nothing is looked for among all workers again and again.
using Places = std::map<std::pair<std::string_view, int>, const WorkerState*>;

Places places_of(const GenerationState& generation) {
  Places places;
  for (const WorkerState& worker : generation.workers) {
    places[{worker.host, worker.slot}] = &worker;
  }
  return places;
}

/// Every slot gets a worker again: the one that was there, where it runs and nobody blames it. None
/// stays when the network is another one: NCCL reads its interface once in a process.
std::vector<Member> members_after(const ClusterState& state) {
  std::vector<Member> members = assign_ranks(state.hosts);
  if (state.network.changed) return members;
  const Places places = places_of(state.job.current);
  for (Member& member : members) {
    const auto place = places.find({member.host, member.slot});
    if (place == places.end()) continue;
    const WorkerState& worker = *place->second;
    const bool stays = !worker.exit && !worker.report && !is_blamed(state.job.current, worker);
    if (stays) member.survivor = worker.incarnation;
  }
  return members;
}

/// A link that a host has lost may come back.
Decision measure_again(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (now >= state.job.current.incidents.front().at + config.limits.start) {
    return blame({network_problem(state, now)});
  }
  if (now < *state.network.ended_at + kMeasureAgain) return wait_for(state.network.text);
  return act(action::MeasureNetwork(), measuring(state));
}

Decision go_on(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  const TimePoint since = state.job.current.incidents.front().at;
  if (cause_is_unknown(state)) {
    if (auto suspect = find_suspect(state, now)) return blame({std::move(*suspect)});
    if (now < since + config.grace)
      return wait_for("a worker has lost its peers; the cause is awaited");
  }
  const std::string missing = missing_hosts(state);
  if (missing.empty()) {
    if (auto measure = see_to_network(state)) return *measure;
    if (state.network.failed) return measure_again(state, config, now);
    const Incident& cause = root_cause(state.job.current);
    return act(action::StartGeneration{.members = members_after(state), .cause = cause},
               line_of(state.job.current, cause));
  }
  if (now < since + config.limits.start) {
    return wait_for("waiting for " + missing + " to register again");
  }
  Incident lost = root_cause(state.job.current);
  lost.what += "; " + missing + " has not registered again after " +
               std::to_string(config.limits.start.count() / 1000) + " s";
  lost.permanent = true;
  lost.at = now;
  return blame({std::move(lost)});
}

/// After a generation that was lost with the coordinator. No restart is counted.
Decision begin_again(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  const std::string missing = missing_hosts(state);
  if (missing.empty()) {
    if (auto measure = see_to_network(state)) return *measure;
    if (state.network.failed) return blame({network_problem(state, now)});
    return act(action::StartGeneration{.members = members_after(state), .cause = {}},
               "beginning again after a time without a coordinator");
  }
  if (now < state.job.current.started_at + config.limits.start) {
    return wait_for("waiting for " + missing + " to register again");
  }
  return blame(
      {{.kind = Incident::Kind::kCrash,
        .rank = {},
        .host = {},
        .who = "host " + missing,
        .what = "it has not registered with the coordinator that was started again, after " +
                std::to_string(config.limits.start.count() / 1000) + " s",
        .at_start = true,
        .permanent = true,
        .at = now}});
}

Decision watch_training(const ClusterState& state) {
  if (all_exited(state)) return act(action::Finish(), "all workers have completed");
  if (!all_joined(state)) return wait_for("waiting for workers to join");
  return wait_for("training");
}

void start_generation(ClusterState& state, const action::StartGeneration& start, TimePoint now) {
  const GenerationState last = std::exchange(
      state.job.current,
      {.number = state.job.current.number + 1, .started_at = now, .workers = {}, .incidents = {}});
  const Places places = places_of(last);
  state.network.changed = false;
  if (start.cause) state.job.restarts.push_back(*start.cause);
  for (HostState& host : state.hosts) host.incarnation += 1;
  for (const Member& member : start.members) {
    HostState& host = *find_host(state, member.host);
    if (member.slot == 0) host.first_rank = member.rank;
    WorkerState& worker = state.job.current.workers.emplace_back();
    worker.rank = member.rank;
    worker.host = member.host;
    worker.slot = member.slot;
    worker.incarnation = host.incarnation;
    worker.last_heard = worker.last_moved = now;
    if (member.survivor == 0) continue;
    worker.incarnation = member.survivor;
    worker.stayed = true;
    worker.pid = places.at({member.host, member.slot})->pid;
  }
}

}  // namespace

std::vector<Member> assign_ranks(std::span<const HostState> hosts) {
  std::vector<Member> members;
  for (const HostState& host : hosts) {
    for (int slot = 0; slot < host.slots; ++slot) {
      members.push_back(
          {.rank = static_cast<Rank>(members.size()), .host = host.name, .slot = slot});
    }
  }
  return members;
}

bool may_restart(const ClusterState& state, const RendezvousConfig& config) {
  return static_cast<int>(state.job.restarts.size()) < config.max_restarts &&
         state.job.current.number > 0 && !state.job.stop && !state.job.terminated_at &&
         std::ranges::none_of(state.job.current.incidents, &Incident::permanent) &&
         std::ranges::none_of(state.job.current.workers, has_ended_well);
}

void apply(ClusterState& state, const Action& action, TimePoint now) {
  if (const auto* blamed = std::get_if<action::Blame>(&action)) {
    add_incident(state, blamed->incident);
  } else if (const auto* start = std::get_if<action::StartGeneration>(&action)) {
    start_generation(state, *start, now);
  } else if (std::holds_alternative<action::AskToStop>(action)) {
    state.job.current.stop_sent = true;
  } else if (std::holds_alternative<action::Terminate>(action)) {
    state.job.terminated_at = now;
  } else if (std::holds_alternative<action::Kill>(action)) {
    state.job.killed_at = now;
  } else if (std::holds_alternative<action::MeasureNetwork>(action)) {
    state.network = {
        .agents = agents_of(state), .changed = state.network.changed, .text = state.network.text};
  }
}

Decision decide(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  // An incident ends the generation, whatever else is going on.
  if (!state.job.current.incidents.empty()) {
    return may_restart(state, config) ? go_on(state, config, now)
                                      : end_after_failure(state, config, now);
  }
  // A stop that was asked for.
  if (state.job.stop) return end_after_stop(state, config, now);
  if (state.job.current.lost) return begin_again(state, config, now);
  // Somebody who never came, or is silent, or does not leave.
  if (auto late = find_overdue(state, config.limits, now); !late.empty()) {
    return blame(std::move(late));
  }
  // Before the first generation.
  if (state.job.current.number == 0) return gather_hosts(state, config, now);
  return watch_training(state);
}

}  // namespace pfc
