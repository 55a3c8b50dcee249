// How a job has ended, and what ended it: told to people in one line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"

namespace pfc {

struct Verdict {
  enum class Kind { kCompleted, kStopped, kFailed };
  Kind kind = Kind::kFailed;
  bool at_start = false;     ///< failed before training could begin
  std::optional<Rank> rank;  ///< of the worker that caused the failure
  bool host_left = false;    ///< stopped because a host leaves: it can go on elsewhere
  int worker_exit_code = 0;  ///< that worker's, where it exited by itself
  std::string message;       ///< one line: "job failed: rank 1 (host b, slot 0): ..."
};

/// Pure. The message ends with the slots and hosts that were left out, and why. The cause of a
/// failed job is the root cause of its last generation.
Verdict verdict(const ClusterState& state);

/// The earliest incident of the lowest kind, which is the most likely cause of the others; of these
/// one that would happen again.
/// REQUIRES: there is one. Pure.
const Incident& root_cause(const GenerationState& generation);

/// "rank 1 (host b, slot 0): killed by SIGKILL". What several workers have reported in the same
/// words is one line: "ranks 0-2, 5: ...". Pure.
std::string line_of(const GenerationState& generation, const Incident& incident);

/// The lines of all incidents of the generation, in order of arrival, each once. Pure.
std::vector<std::string> incident_lines(const GenerationState& generation);

/// Whether workers may have trained in this generation, so that they have something to save. They
/// have not before all of them have joined, nor while all of them say that they have not begun
/// their first step. Pure.
bool may_have_trained(const ClusterState& state);

}  // namespace pfc
