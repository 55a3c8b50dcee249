// Which host or worker takes too long, judged by the coordinator's own clock alone.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"

namespace pfc {

struct HealthLimits {
  std::chrono::milliseconds start{60'000};    ///< hosts to register, workers to join
  std::chrono::milliseconds silence{30'000};  ///< without a heartbeat; one comes every second
  std::chrono::milliseconds leave{30'000};    ///< from a worker's last report to its exit
  PaceLimits pace;                            ///< while the others wait for a worker in training
};

/// An agent has so long to tell what a worker does before that one is blamed.
inline constexpr std::chrono::milliseconds kDescribe{2'000};

/// A worker without progress for so long is shown as such. A step or phase may last longer.
inline constexpr std::chrono::seconds kNoProgress{30};

/// The worker sent progress: keeps it, and notes when the step, the phase or the number of a
/// collective last changed.
void worker_progressed(WorkerState& worker, const proto::Progress& progress, TimePoint now);

/// The hosts and workers that have taken longer than their limits. Pure.
std::vector<Incident> find_overdue(const ClusterState& state, const HealthLimits& limits,
                                   TimePoint now);

/// The workers among those that incidents blame whose agents have not been asked yet what they do.
/// Pure.
std::vector<Rank> to_be_described(const ClusterState& state,
                                  const std::vector<Incident>& incidents);
/// Whether one of them may still be described. Pure.
bool awaits_description(const ClusterState& state, const std::vector<Incident>& incidents,
                        TimePoint now);

/// Of those the ones that are silent, or do not leave: while a job ends, nobody is waited for at
/// its start. Pure.
std::vector<Incident> find_silent(const ClusterState& state, const HealthLimits& limits,
                                  TimePoint now);

/// The likely cause when workers report only that they have lost a peer: the worker that has missed
/// several heartbeats, or else the one that sends heartbeats but has made no progress for as long,
/// and does not wait in a collective as its peers did. Pure.
std::optional<Incident> find_suspect(const ClusterState& state, TimePoint now);

/// What a person should do to start the agent of a host: "run there: pfc-agent --coordinator
/// 10.0.0.1:7450 --host b" (or "--join TOKEN@10.0.0.1:7450#FINGERPRINT", where that is given), or
/// to check the name when this machine does not know it; or, of this
/// machine, why the agent that was started here may not come.
std::string agent_advice(const std::string& coordinator, const HostState& host);

/// "last seen at step 120 in all_gather"; empty before the first progress.
std::string last_seen(const WorkerState& worker);

/// For the others: "at step 120 in forward for 31 s, after all_gather (number 12 of 'step')".
std::string doing(const WorkerState& worker, TimePoint now);

}  // namespace pfc
