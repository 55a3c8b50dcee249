// Finds hosts and workers that miss their deadlines. Uses only the coordinator's clock.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/rules/cluster_state.h"

namespace pfc {

struct HealthLimits {
  std::chrono::milliseconds start{60'000};    ///< time for hosts to register and workers to join
  std::chrono::milliseconds silence{30'000};  ///< time without a heartbeat (interval: 1 s)
  std::chrono::milliseconds leave{30'000};    ///< time from a worker's last report to its exit
  PaceLimits pace;                            ///< limits of a worker for which others wait
};

/// Time for an agent to describe a worker before the worker is blamed.
inline constexpr std::chrono::milliseconds kDescribe{2'000};

/// After this time the state of a worker is shown as "no progress", which need not be a failure.
inline constexpr std::chrono::seconds kNoProgress{30};

/// Stores a worker's progress, and the time of the last change of its step, phase, `work` or number
/// of collectives.
void worker_progressed(WorkerState& worker, const proto::Progress& progress, TimePoint now);

/// Returns incidents for hosts and workers over their limits. Pure.
std::vector<Incident> find_overdue(const ClusterState& state, const HealthLimits& limits,
                                   TimePoint now);

/// Returns the workers blamed by `incidents` for which no description was requested yet.
/// Pure.
std::vector<Rank> to_be_described(const ClusterState& state,
                                  const std::vector<Incident>& incidents);
/// Returns whether one of their descriptions may still arrive. Pure.
bool awaits_description(const ClusterState& state, const std::vector<Incident>& incidents,
                        TimePoint now);

/// Like find_overdue(), but finds only silence and missing exits: a job that ends starts nothing
/// that could be late. Pure.
std::vector<Incident> find_silent(const ClusterState& state, const HealthLimits& limits,
                                  TimePoint now);

/// Returns the likely cause when workers report only lost peers. This is a worker that has missed
/// several heartbeats; or else one that sends heartbeats, but has made no progress for the same
/// time and does not wait in a collective. Pure.
std::optional<Incident> find_suspect(const ClusterState& state, TimePoint now);

/// Returns how to start a host's agent: "run there: pfc-agent --coordinator 10.0.0.1:7450 --host
/// b" (or "--join TOKEN@10.0.0.1:7450#FINGERPRINT", if given). If the name does not resolve, says
/// to check it; if no name server has answered, says so before the command. For this machine, says
/// why the local agent may not connect.
std::string agent_advice(const std::string& coordinator, const HostState& host);

/// Returns "last seen at step 120 in all_gather"; empty before the first progress.
std::string last_seen(const WorkerState& worker);

/// Returns "at step 120 in forward for 31 s, after all_gather (number 12 of communicator 'step')".
std::string doing(const WorkerState& worker, TimePoint now);

}  // namespace pfc
