// Result of a job and its cause, as one line for users.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/rules/cluster_state.h"

namespace pfc {

struct Verdict {
  enum class Kind { kCompleted, kStopped, kFailed };
  Kind kind = Kind::kFailed;
  bool at_start = false;     ///< failed before training began
  std::optional<Rank> rank;  ///< rank of the worker that caused the failure
  bool host_left = false;    ///< stopped because a host was drained; it can be resumed elsewhere
  int worker_exit_code = 0;  ///< exit code of that worker, if it exited by itself
  std::string message;       ///< one line: "job failed: rank 1 (host b, slot 0): ..."
};

/// Returns the result. The message ends with the excluded slots and hosts, and why. The cause of a
/// failed job is the root cause of its last generation. Pure.
Verdict verdict(const ClusterState& state);

/// Returns the incident of the lowest kind, which is the most likely cause of the others; among
/// these a permanent one first, then the earliest. REQUIRES: there is one. Pure.
const Incident& root_cause(const GenerationState& generation);

/// Returns "rank 1 (host b, slot 0): killed by SIGKILL". Equal reports of several workers become
/// one line: "ranks 0-2, 5: ...". Pure.
std::string line_of(const GenerationState& generation, const Incident& incident);

/// Returns the distinct lines of all incidents of the generation, in order of arrival. Pure.
std::vector<std::string> incident_lines(const GenerationState& generation);

/// Returns whether workers may have trained in this generation and have something to save: all
/// have joined, and not all report that their first step has not begun. Pure.
bool may_have_trained(const ClusterState& state);

}  // namespace pfc
