// Who is in a generation: which slots of which hosts get a worker, with which rank, and whose
// processes go on.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"
#include "coordinator/elastic/elastic_config.h"

namespace pfc {

/// One worker of a generation.
struct Member {
  Rank rank = 0;
  std::string host;
  int slot = 0;  ///< its place on the host, from 0
  /// The incarnation of a worker of the last generation that goes on; 0: a new one is started.
  std::int64_t survivor = 0;

  friend bool operator==(const Member&, const Member&) = default;
};

/// Gives ranks to the hosts in the order given, and on each host to its slots in order. Workers of
/// one host have neighbouring ranks, so that most steps of a ring stay inside a host. All are new.
std::vector<Member> assign_ranks(std::span<const HostState> hosts);

/// Of all hosts, those that are not here too. A host that has to register first may have none yet.
int slots_of(std::span<const HostState> hosts);
/// How many could have a worker if every agent that is here answers: without those of hosts that
/// leave, those that are left out, and GPUs that a host has lost since it was here first.
int usable_slots(const ClusterState& state, TimePoint now);

/// How many workers the job should have: one for each slot of all hosts of the list, but for the
/// spares, and at most ElasticConfig::max_workers and what it can use.
int wanted_workers(const ClusterState& state, const ElasticConfig& config);
/// With how few it goes on.
int least_workers(const ClusterState& state, const ElasticConfig& config);

/// An agent that has been silent for so long is not counted on for a new generation: heartbeats
/// come every second. A worker is suspected later, so that its host is then known to be silent too.
inline constexpr std::chrono::seconds kQuiet{3};

/// Whether workers may be started on the host: its agent is here, and it does not leave.
bool is_usable(const HostState& host);
/// Whether its agent is here, but has been silent for a while.
bool is_quiet(const HostState& host, TimePoint now);

/// The processes that hold the newest snapshot, by their ranks when it was taken; none: unknown.
std::vector<SnapshotPart> snapshot_parts(const JobState& job);

/// Returns the host whose output folder alone has the newest usable state. Empty if all hosts share
/// the folder, or if the workers' memory has a state that is as new.
std::string holder_of(const ClusterState& state, TimePoint now);

struct Plan {
  std::vector<Member> members;  ///< by rank
  int wanted = 0;
  int least = 0;

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  [[nodiscard]] bool enough() const { return size() >= least; }
  [[nodiscard]] bool complete() const { return size() >= wanted; }
};

/// The generation that could begin now. Of the slots that are there and not left out, those whose
/// worker goes on come first, then those that have failed least, then the first in the list. The
/// ranks are in the order of the list, so that survivors keep their neighbours where they can.
Plan plan_members(const ClusterState& state, const FailureHistory& blame,
                  const ElasticConfig& config, TimePoint now);
inline Plan plan_members(const ClusterState& state, const ElasticConfig& config, TimePoint now) {
  return plan_members(state, state.job.blame, config, now);
}

/// Slots that are there and have no worker. "slot 1 of host b"
std::vector<std::string> idle_slots(const ClusterState& state, TimePoint now);

/// The hosts that have workers in this generation and are not here any more, or silent.
std::vector<std::string> lost_hosts(const ClusterState& state, TimePoint now);

/// Slots that could join the current generation.
struct Growth {
  Plan plan;                       ///< with them
  std::vector<std::string> hosts;  ///< theirs
  TimePoint since;                 ///< since when they could
};
/// None: there are none, or the job has all the workers that it should have, or one of its workers
/// would not stay, because its agent is silent.
std::optional<Growth> possible_growth(const ClusterState& state, const ElasticConfig& config,
                                      TimePoint now);

/// The host with workers in this generation that must be free first; null: there is none.
const HostState* leaving_host(const ClusterState& state);

/// Why the job has fewer workers than it should: "4 of 6 workers: host b is not here; slot 1 of
/// host c is left out"; empty where it has all.
std::string why_smaller(const ClusterState& state, const ElasticConfig& config, TimePoint now);

/// Marks the host unusable after its agent ended for good. Returns true if that is an incident,
/// because the host runs workers, or the first generation still needs it, as it needs every host of
/// the list. The incident is permanent unless enough slots are left.
bool lose_agent_for_good(ClusterState& state, HostState& host, const ElasticConfig& config,
                         const std::string& what, bool at_start, TimePoint now);

/// Begins the next generation with these members. `cause`: the failure of the last one; empty: it
/// has not failed.
void start_generation(ClusterState& state, std::span<const Member> members,
                      const std::optional<Incident>& cause, TimePoint now);

}  // namespace pfc
