#include "coordinator/rules/elastic/membership.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/counted.h"
#include "common/workers/keepers.h"

namespace pfc {
namespace {

/// Indexes the workers by host and slot.
using Places = std::map<std::pair<std::string_view, int>, const WorkerState*>;

Places places_of(const GenerationState& generation) {
  Places places;
  for (const WorkerState& worker : generation.workers) {
    places[{worker.host, worker.slot}] = &worker;
  }
  return places;
}

const WorkerState* find(const Places& places, const std::string& host, int slot) {
  const auto place = places.find({host, slot});
  return place == places.end() ? nullptr : place->second;
}

bool is_blamed(const GenerationState& generation, const WorkerState& worker) {
  return std::ranges::any_of(generation.incidents, [&](const Incident& incident) {
    return incident.host == worker.host ||
           (incident.rank == worker.rank && incident.kind != Incident::Kind::kPeerLost);
  });
}

/// Returns the number of usable slots: a host may have fewer GPUs than slots, or fewer than before.
/// A host without a GPU has one slot.
int slots_there(const HostState& host, DeviceChoice device) {
  if (host.gpus > 0 && (host.counts_gpus || device != DeviceChoice::kCpu)) {
    return std::min(host.slots, host.gpus);
  }
  if (host.counts_gpus) return host.slots > 1 ? 0 : host.slots;
  return device == DeviceChoice::kCuda ? 0 : host.slots;
}

/// A slot that can have a worker.
struct Candidate {
  const HostState* host = nullptr;
  int slot = 0;
  bool goes_on = false;  ///< its worker runs and is not blamed
  std::int64_t incarnation = 0;
  int failures = 0;
  bool has_checkpoint = false;  ///< only its host has the state to resume from
};

/// Returns whether the remaining workers hold all rows of a snapshot, as their own or as replicas.
bool memory_is_whole(const ClusterState& state, TimePoint now) {
  const std::vector<SnapshotPart> parts = snapshot_parts(state.job);
  const Places places = places_of(state.job.current);
  std::vector<std::string> hosts;
  for (const SnapshotPart& part : parts) hosts.push_back(part.host);
  const auto is_there = [&](const SnapshotPart& part) {
    const auto host = std::ranges::find(state.hosts, part.host, &HostState::name);
    const WorkerState* const worker = find(places, part.host, part.slot);
    return host != state.hosts.end() && is_usable(*host) && !is_quiet(*host, now) &&
           worker != nullptr && worker->incarnation == part.incarnation && !worker->exit &&
           !worker->report && !is_blamed(state.job.current, *worker);
  };
  const std::vector<Rank> keepers = keepers_of(hosts);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const auto keeper = static_cast<std::size_t>(keepers[rank]);
    if (!is_there(parts[rank]) && !is_there(parts[keeper])) return false;
  }
  return !parts.empty();
}

std::vector<Candidate> candidates(const ClusterState& state, const FailureHistory& blame,
                                  TimePoint now) {
  const Places places = places_of(state.job.current);
  const SavedState& saved = state.job.saved;
  std::string holder = holder_of(state, now);
  // Unknown whether hosts share the folder: prefer the checkpoint's writer, without waiting for it.
  const bool is_unknown = saved.checkpoint_host.empty() && !saved.sharing_is_known;
  if (is_unknown) holder = saved.checkpoint_writer;
  std::vector<Candidate> found;
  for (const HostState& host : state.hosts) {
    if (!is_usable(host) || (state.job.current.number > 0 && is_quiet(host, now))) continue;
    for (int slot = 0; slot < slots_there(host, state.job.device); ++slot) {
      const bool has_checkpoint = slot == 0 && host.name == holder;
      if (is_left_out(blame, host.name, slot, now) && !has_checkpoint) continue;
      Candidate& added = found.emplace_back();
      added.has_checkpoint = has_checkpoint;
      added.host = &host;
      added.slot = slot;
      added.failures = failures_of(blame, host.name, slot, now);
      const WorkerState* const worker = find(places, host.name, slot);
      if (worker == nullptr || worker->exit || worker->report) continue;
      added.goes_on = !is_blamed(state.job.current, *worker);
      added.incarnation = worker->incarnation;
    }
  }
  return found;
}

}  // namespace

std::vector<SnapshotPart> snapshot_parts(const JobState& job) {
  if (job.saved.memory_generation != job.current.number) return job.saved.memory_parts;
  std::vector<SnapshotPart> parts;
  for (const WorkerState& worker : job.current.workers) {
    parts.push_back({.host = worker.host, .slot = worker.slot, .incarnation = worker.incarnation});
  }
  return parts;
}

std::string holder_of(const ClusterState& state, TimePoint now) {
  const SavedState& saved = state.job.saved;
  if (saved.checkpoint_step == 0 || saved.checkpoint_host.empty()) return {};
  const bool in_memory = !state.network.changed && saved.memory_step >= saved.checkpoint_step &&
                         memory_is_whole(state, now);
  return in_memory ? std::string() : saved.checkpoint_host;
}

int slots_of(std::span<const HostState> hosts) {
  int slots = 0;
  for (const HostState& host : hosts) slots += host.slots;
  return slots;
}

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

int wanted_workers(const ClusterState& state, const ElasticConfig& config) {
  int wanted = std::max(slots_of(state.hosts) - config.spares, 1);
  for (const int most : {config.max_workers, state.job.most_workers}) {
    if (most > 0) wanted = std::min(wanted, most);
  }
  return wanted;
}

int least_workers(const ClusterState& state, const ElasticConfig& config) {
  const int wanted = wanted_workers(state, config);
  if (config.min_workers == 0) return wanted;
  return std::max(config.min_workers, std::min(state.job.least_workers, wanted));
}

int usable_slots(const ClusterState& state, TimePoint now) {
  int slots = 0;
  for (const HostState& host : state.hosts) {
    if (!is_usable(host)) continue;
    for (int slot = 0; slot < slots_there(host, state.job.device); ++slot) {
      slots += is_left_out(state.job.blame, host.name, slot, now) ? 0 : 1;
    }
  }
  return slots;
}

bool is_usable(const HostState& host) { return host.registered && !host.leaving; }

bool is_quiet(const HostState& host, TimePoint now) {
  return host.registered && now - host.last_heard >= kQuiet;
}

Plan plan_members(const ClusterState& state, const FailureHistory& blame,
                  const ElasticConfig& config, TimePoint now) {
  Plan plan{.members = {},
            .wanted = wanted_workers(state, config),
            .least = least_workers(state, config)};
  std::vector<Candidate> chosen = candidates(state, blame, now);
  if (std::ssize(chosen) > plan.wanted) {
    const auto place = [&](const Candidate& each) {
      return std::pair(each.host - state.hosts.data(), each.slot);
    };
    std::ranges::stable_sort(chosen, {}, [](const Candidate& each) {
      return std::tuple(!each.has_checkpoint, !each.goes_on, each.failures);
    });
    chosen.resize(static_cast<std::size_t>(plan.wanted));
    std::ranges::sort(chosen, {}, place);
  }
  for (const Candidate& each : chosen) {
    // If the network has changed, no process stays: NCCL reads its interface once per process.
    const bool stays = each.goes_on && !state.network.changed;
    plan.members.push_back({.rank = plan.size(),
                            .host = each.host->name,
                            .slot = each.slot,
                            .survivor = stays ? each.incarnation : 0});
  }
  return plan;
}

std::vector<std::string> idle_slots(const ClusterState& state, TimePoint now) {
  const Places places = places_of(state.job.current);
  std::vector<std::string> idle;
  for (const HostState& host : state.hosts) {
    if (!is_usable(host) || is_quiet(host, now)) continue;
    for (int slot = 0; slot < slots_there(host, state.job.device); ++slot) {
      if (find(places, host.name, slot) != nullptr) continue;
      if (is_left_out(state.job.blame, host.name, slot, now)) continue;
      idle.push_back("slot " + std::to_string(slot) + " of host " + host.name);
    }
  }
  return idle;
}

std::vector<std::string> lost_hosts(const ClusterState& state, TimePoint now) {
  std::vector<std::string> lost;
  for (const HostState& host : state.hosts) {
    const bool is_lost = !host.registered || is_quiet(host, now);
    if (is_lost && host.workers > 0) lost.push_back(host.name);
  }
  return lost;
}

std::optional<Growth> possible_growth(const ClusterState& state, const ElasticConfig& config,
                                      TimePoint now) {
  const auto present = std::ssize(state.job.current.workers);
  if (present >= wanted_workers(state, config)) return {};
  Growth growth{
      .plan = plan_members(state, config, now), .hosts = {}, .since = state.job.current.started_at};
  if (growth.plan.size() <= present) return {};
  const Places places = places_of(state.job.current);
  std::ptrdiff_t stay = 0;
  for (const Member& member : growth.plan.members) {
    if (find(places, member.host, member.slot) != nullptr) {
      ++stay;
      continue;
    }
    if (growth.hosts.empty() || growth.hosts.back() != member.host) {
      growth.hosts.push_back(member.host);
    }
    const auto host = std::ranges::find(state.hosts, member.host, &HostState::name);
    const auto admitted = admitted_at(state.job.blame, member.host, member.slot);
    growth.since = std::max({growth.since, host->came_at, admitted.value_or(host->came_at)});
  }
  if (stay < present) return {};  // a current worker's agent is silent
  return growth;
}

const HostState* leaving_host(const ClusterState& state) {
  const auto host = std::ranges::find_if(
      state.hosts, [](const HostState& each) { return each.leaving && each.workers > 0; });
  return host == state.hosts.end() ? nullptr : &*host;
}

std::string why_smaller(const ClusterState& state, const ElasticConfig& config, TimePoint now) {
  const auto present = std::ssize(state.job.current.workers);
  const int wanted = wanted_workers(state, config);
  if (state.job.current.number == 0 || present >= wanted) return {};
  std::vector<std::string> reasons;
  for (const HostState& host : state.hosts) {
    if (!host.registered) {
      reasons.push_back("host " + host.name + " is not registered");
    } else if (host.leaving) {
      reasons.push_back("host " + host.name + " is being drained (" + host.leaving->reason + ")");
    } else if (is_quiet(host, now)) {
      reasons.push_back("host " + host.name + " does not answer");
    } else if (slots_there(host, state.job.device) < host.slots) {
      reasons.push_back("host " + host.name + " has " + counted(std::max(host.gpus, 0), "GPU") +
                        (host.counts_gpus ? ", and had " + std::to_string(host.slots)
                                          : " for " + counted(host.slots, "slot")));
    }
  }
  for (const FailureRecord& record : state.job.blame.records) {
    if (is_left_out(record, now)) reasons.push_back(name_of(record) + " is left out");
  }
  const auto idle = static_cast<int>(idle_slots(state, now).size());
  if (idle > 0) reasons.push_back(std::to_string(idle) + " more can join at the next checkpoint");
  return std::to_string(present) + " of " + std::to_string(wanted) + " workers" +
         (reasons.empty() ? "" : ": " + listed(reasons));
}

bool lose_agent_for_good(ClusterState& state, HostState& host, const ElasticConfig& config,
                         const std::string& what, bool at_start, TimePoint now) {
  host.registered = false;
  const bool runs = !state.job.id.empty();
  if (!runs || (state.job.current.number > 0 && host.workers == 0)) return false;
  const bool enough_are_left =
      state.job.current.number > 0 && usable_slots(state, now) >= least_workers(state, config);
  add_incident(state, {.kind = Incident::Kind::kCrash,
                       .rank = {},
                       .host = host.name,
                       .who = "host " + host.name,
                       .what = what,
                       .at_start = at_start,
                       .permanent = !enough_are_left,
                       .at = now});
  // The workers died with the agent, so no exit report will come.
  for (WorkerState& worker : state.job.current.workers) {
    if (worker.host == host.name && !worker.exit) worker.exit = ProcessExit{.signal = SIGKILL};
  }
  return true;
}

void start_generation(ClusterState& state, std::span<const Member> members,
                      const std::optional<Incident>& cause, TimePoint now) {
  state.job.saved.memory_parts = snapshot_parts(state.job);
  const GenerationState last = std::exchange(
      state.job.current,
      {.number = state.job.current.number + 1, .started_at = now, .workers = {}, .incidents = {}});
  const Places places = places_of(last);
  state.network.changed = false;
  if (cause) {
    state.job.restarts += 1;
    state.job.last_restart = cause;
  }
  std::vector<WorkerState>& workers = state.job.current.workers;
  auto member = members.begin();
  for (HostState& host : state.hosts) {
    host.incarnation += 1;
    host.first_rank = static_cast<Rank>(workers.size());
    for (; member != members.end() && member->host == host.name; ++member) {
      WorkerState& worker = workers.emplace_back();
      worker.rank = member->rank;
      worker.host = member->host;
      worker.slot = member->slot;
      worker.incarnation = host.incarnation;
      worker.last_heard = worker.last_moved = now;
      if (member->survivor == 0) continue;
      worker.incarnation = member->survivor;
      worker.stayed = true;
      worker.pid = find(places, member->host, member->slot)->pid;
    }
    host.workers = static_cast<int>(workers.size()) - host.first_rank;
  }
}

}  // namespace pfc
