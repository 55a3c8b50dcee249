// What the coordinator does next, decided by one pure function, decide(): when to start workers,
// which failure is the cause, and when to end the job. docs/cluster.md describes it in prose.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"
#include "coordinator/health.h"

namespace pfc {

/// One worker to start.
struct Member {
  Rank rank = 0;
  std::string host;
  int slot = 0;  ///< its place on the host, from 0

  friend bool operator==(const Member&, const Member&) = default;
};

/// Gives ranks to the hosts in the order given, and on each host to its slots in order. Workers of
/// one host have neighbouring ranks, so that most steps of a ring stay inside a host.
std::vector<Member> assign_ranks(std::span<const HostState> hosts);

struct RendezvousConfig {
  HealthLimits limits;
  DeviceChoice device = DeviceChoice::kAuto;   ///< the job's
  std::chrono::milliseconds grace{5'000};      ///< for peers to notice a failure by themselves
  std::chrono::milliseconds stop{60'000};      ///< for workers to write a checkpoint and end
  std::chrono::milliseconds terminate{5'000};  ///< between SIGTERM and SIGKILL
  std::chrono::milliseconds kill{5'000};       ///< from SIGKILL to the agents' reports
};

enum class Action {
  kWait,             ///< nothing to do; `reason` says what is awaited
  kStartGeneration,  ///< the next generation, with `members`
  kFail,             ///< `failure` has been found
  kAskToStop,        ///< ask every worker to write a checkpoint and end
  kTerminate,        ///< send SIGTERM to the workers that still run
  kKill,             ///< send SIGKILL to the workers that still run
  kFinish,           ///< the job is over; verdict() says how
};

struct Decision {
  Action action = Action::kWait;
  std::string reason;              ///< for a person; changes only when something has changed
  std::vector<Member> members;     ///< of kStartGeneration
  std::optional<Failure> failure;  ///< of kFail
};

/// Pure: no clock, lock or I/O. The caller applies the decision to the state, carries its action
/// out, and asks again after every event and several times a second.
Decision decide(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

/// What the decision changes in the state. Pure, apart from the state.
void apply(ClusterState& state, const Decision& decision, TimePoint now);

/// How the job has ended.
struct Verdict {
  enum class Kind { kCompleted, kStopped, kFailed };
  Kind kind = Kind::kFailed;
  bool at_start = false;     ///< failed before training could begin
  std::optional<Rank> rank;  ///< of the worker that caused the failure
  int worker_exit_code = 0;  ///< that worker's, where it exited by itself
  std::string message;       ///< one line: "job failed: rank 1 (host b, slot 0): ..."
};

/// Pure. The cause of a failed job is the earliest failure of the lowest kind.
Verdict verdict(const ClusterState& state);

/// All failures, one line for each: "rank 1 (host b, slot 0): ...". What several workers have
/// reported in the same words is one line: "ranks 0-2, 5: ...". Pure.
std::vector<std::string> failure_lines(const ClusterState& state);

}  // namespace pfc
