// What the cluster does next: the failure table of the design, as one pure function.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"
#include "coordinator/health.h"
#include "coordinator/rank_assignment.h"

namespace pfc {

struct RendezvousConfig {
  HealthLimits limits;
  DeviceChoice device = DeviceChoice::kAuto;   ///< the job's
  std::chrono::milliseconds grace{5'000};      ///< for peers to notice a failure by themselves
  std::chrono::milliseconds stop{60'000};      ///< for workers to checkpoint and end
  std::chrono::milliseconds terminate{5'000};  ///< between SIGTERM and SIGKILL
  std::chrono::milliseconds kill{5'000};       ///< for agents to tell that all is over
};

enum class Action {
  kWait,             ///< nothing to do; `reason` says what is awaited
  kStartGeneration,  ///< the next generation, with `members`
  kFail,             ///< `failures` are added to the state
  kAskToStop,        ///< every worker: checkpoint and end
  kTerminate,        ///< SIGTERM to what is left
  kKill,             ///< SIGKILL to what is left
  kFinish,           ///< the job is over; verdict() says how
};

struct Decision {
  Action action = Action::kWait;
  std::string reason;  ///< for a person; changes only when something has changed
  std::vector<Member> members;
  std::vector<Failure> failures;
};

/// Pure: no clock, lock or I/O. The caller carries the action out, notes it in the state, and asks
/// again after every event and several times a second.
Decision decide(const ClusterState& state, const RendezvousConfig& config, TimePoint now);

/// How the job ended.
struct Verdict {
  enum class Kind { kCompleted, kStopped, kFailed };
  Kind kind = Kind::kFailed;
  bool at_start = false;     ///< failed before training could begin
  std::optional<Rank> rank;  ///< of the root cause
  int worker_exit_code = 0;  ///< that worker's, where it exited by itself
  std::string message;       ///< one line: "job failed: rank 1 (host b, slot 0): ..."
};

/// Pure. The root cause is the first failure of the kind nearest to the root, not the last to cry.
Verdict verdict(const ClusterState& state);

}  // namespace pfc
