// What the coordinator does next, decided by one pure function, decide(): when a generation begins,
// what has ended it, and when the job ends. docs/cluster.md describes it in prose.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/cluster_state.h"
#include "coordinator/health.h"

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

struct RendezvousConfig {
  HealthLimits limits;
  DeviceChoice device = DeviceChoice::kAuto;   ///< the job's
  int max_restarts = 0;                        ///< generations after the first one
  std::chrono::milliseconds grace{5'000};      ///< for peers to notice a failure by themselves
  std::chrono::milliseconds stop{60'000};      ///< for workers to write a checkpoint and end
  std::chrono::milliseconds terminate{5'000};  ///< between SIGTERM and SIGKILL
  std::chrono::milliseconds kill{5'000};       ///< from SIGKILL to the agents' reports
};

namespace action {
/// Something has gone wrong: the generation is over.
struct Blame {
  Incident incident;
};
/// Find out how the hosts reach each other, and which network is the best.
struct MeasureNetwork {};
/// The next generation begins, because of what has ended the last one; empty: it is the first.
struct StartGeneration {
  std::vector<Member> members;
  std::optional<Incident> cause;
};
/// Ask every worker to write a checkpoint and end.
struct AskToStop {};
/// Send SIGTERM to the workers that still run.
struct Terminate {};
/// Send SIGKILL to the workers that still run.
struct Kill {};
/// The job is over; verdict() says how.
struct Finish {};
/// Ask the worker's agent what it does: it will be blamed.
struct Describe {
  Rank rank = 0;
};
}  // namespace action

using Action =
    std::variant<action::Blame, action::StartGeneration, action::AskToStop, action::Terminate,
                 action::Kill, action::Finish, action::MeasureNetwork, action::Describe>;

struct Decision {
  std::string reason;           ///< for a person; changes only when something has changed
  std::vector<Action> actions;  ///< in order; none: there is nothing to do, `reason` is awaited
};

/// Whether the job may go on in another generation after what has happened in this one. Pure.
bool may_restart(const ClusterState& state, const RendezvousConfig& config);

/// Pure: no clock, lock or I/O. The caller applies each action to the state, carries it out, and
/// asks again, until there is nothing to do; and after every event and several times a second.
Decision decide(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

/// What the action changes in the state. Pure, apart from the state.
void apply(ClusterState& state, const Action& action, TimePoint now);

}  // namespace pfc
