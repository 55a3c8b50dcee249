// Membership of a generation: which slots get a worker, with which rank, and which processes stay.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/rules/cluster_state.h"
#include "coordinator/rules/elastic/elastic_config.h"

namespace pfc {

/// One worker of a generation.
struct Member {
  Rank rank = 0;
  std::string host;
  int slot = 0;  ///< slot number on the host, from 0
  /// WorkerState::incarnation of a worker process that stays from the last generation; 0: start a
  /// new process.
  std::int64_t survivor = 0;

  friend bool operator==(const Member&, const Member&) = default;
};

/// Assigns ranks by host and slot, in the order given. Workers of one host have consecutive ranks,
/// so that most steps of a ring stay inside a host. All members are new.
std::vector<Member> assign_ranks(std::span<const HostState> hosts);

/// Returns the slots of all hosts, including absent ones. They may be 0 until a host registers.
int slots_of(std::span<const HostState> hosts);
/// Returns the slots that could have a worker if every registered agent answers. Omits hosts being
/// drained, excluded slots, and GPUs that a host has lost.
int usable_slots(const ClusterState& state, TimePoint now);

/// Returns the target number of workers: all slots of all hosts except spares, limited by
/// ElasticConfig::max_workers and by the number that the job can use.
int wanted_workers(const ClusterState& state, const ElasticConfig& config);
/// Returns the minimum number of workers to continue.
int least_workers(const ClusterState& state, const ElasticConfig& config);

/// Silence (heartbeat: 1 s) after which an agent is not used in a new generation. Less than the
/// limit for workers, so that a suspected worker's host is known to be silent too.
inline constexpr std::chrono::seconds kQuiet{3};

/// Returns whether the host can have workers: its agent is registered and it is not being drained.
bool is_usable(const HostState& host);
/// Returns whether the host's agent is registered, but silent.
bool is_quiet(const HostState& host, TimePoint now);

/// Returns the processes that hold the parts of the newest snapshot. The index is the rank that the
/// process had in the generation that took the snapshot. Empty: unknown.
std::vector<SnapshotPart> snapshot_parts(const JobState& job);

/// Returns the host whose output folder alone has the newest usable state. Empty if all hosts
/// share the folder, or the workers' memory has a state at least as new.
std::string holder_of(const ClusterState& state, TimePoint now);

struct Plan {
  std::vector<Member> members;  ///< by rank
  int wanted = 0;
  int least = 0;

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  [[nodiscard]] bool enough() const { return size() >= least; }
  [[nodiscard]] bool complete() const { return size() >= wanted; }
};

/// Plans the generation that could begin now, from slots that are usable and not excluded. Prefers
/// the host with the checkpoint, then slots whose worker stays, then slots with fewer failures,
/// then list order. Ranks follow the list, so that survivors keep their neighbours if possible.
Plan plan_members(const ClusterState& state, const FailureHistory& blame,
                  const ElasticConfig& config, TimePoint now);
inline Plan plan_members(const ClusterState& state, const ElasticConfig& config, TimePoint now) {
  return plan_members(state, state.job.blame, config, now);
}

/// Returns the usable slots without a worker: "slot 1 of host b".
std::vector<std::string> idle_slots(const ClusterState& state, TimePoint now);

/// Returns the hosts that have workers in this generation and are gone or silent.
std::vector<std::string> lost_hosts(const ClusterState& state, TimePoint now);

/// Slots that could join the current generation.
struct Growth {
  Plan plan;                       ///< includes the new slots
  std::vector<std::string> hosts;  ///< hosts of the new slots
  TimePoint since;                 ///< when the last of these hosts became able to join
};
/// Returns nothing if no slot can join, the job has all wanted workers, or a current worker would
/// not stay because its agent is silent.
std::optional<Growth> possible_growth(const ClusterState& state, const ElasticConfig& config,
                                      TimePoint now);

/// Returns the first host with workers that is being drained; null if there is none.
const HostState* leaving_host(const ClusterState& state);

/// Returns why the job has fewer workers than wanted: "4 of 6 workers: host b is not registered;
/// slot 1 of host c is left out". Empty if it has all.
std::string why_smaller(const ClusterState& state, const ElasticConfig& config, TimePoint now);

/// Marks the host unusable after its agent ended for good. Returns true if that is an incident:
/// the host runs workers, or the first generation, which needs every host, has not begun. The
/// incident is permanent unless enough slots are left.
bool lose_agent_for_good(ClusterState& state, HostState& host, const ElasticConfig& config,
                         const std::string& what, bool at_start, TimePoint now);

/// Begins the next generation. `cause`: failure of the last generation; empty if it did not
/// fail.
void start_generation(ClusterState& state, std::span<const Member> members,
                      const std::optional<Incident>& cause, TimePoint now);

}  // namespace pfc
