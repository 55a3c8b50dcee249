// The state and outputs that the parts of the coordinator share.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/allocation/hosts.h"
#include "coordinator/cluster/job.h"
#include "coordinator/cluster/links.h"
#include "coordinator/history/history.h"
#include "coordinator/metrics/metrics.h"
#include "coordinator/rules/cluster_state.h"
#include "coordinator/rules/decisions/decision.h"
#include "coordinator/rules/host_addresses.h"
#include "coordinator/rules/job_progress.h"
#include "coordinator/terminal/terminal.h"

namespace pfc {

/// Workers wait for each other this much longer than the coordinator waits for them. So the
/// coordinator gives up first, and its message names the missing workers.
inline constexpr std::chrono::milliseconds kJoinSlack{10'000};

struct CoordinatorOptions {
  std::vector<HostSpec> hosts;
  /// True: waits for jobs, and runs each when all hosts are registered. False: ends with its job.
  bool is_service = false;
  std::string local_agent_id = {};  ///< id of the agent that the coordinator starts; empty: none
  RendezvousConfig rendezvous;      ///< used for every job
  NetworkWish network = {};         ///< restricts the workers' addresses
  std::chrono::milliseconds collective_timeout{300'000};  ///< sent to the workers
  std::chrono::milliseconds coordinator_grace{600'000};   ///< sent to the agents
  std::chrono::milliseconds tick{100};                    ///< between calls of decide()
};

/// Data of the running job that are not part of the cluster's state. The next job replaces it.
struct Run {
  Job job;
  RendezvousConfig config;
  JobProgress progress;
  std::string cause;  ///< cause of the last restart
  WallTime started;
};

/// Used on the event loop only.
struct Cluster {
  const CoordinatorOptions options;
  Terminal& terminal;
  /// Set by the coordinator. `advance` calls decide() and acts, until there is nothing to do.
  /// `save_soon` schedules a save of the changed state; `save_now` waits until the state is in the
  /// journal, up to a timeout.
  std::function<void()> advance, save_soon, save_now;

  ClusterState state = {};
  Run run = {.config = options.rendezvous};
  Links links{state};
  Metrics metrics = {};
  History history = {};
  std::string reason = {};  ///< reason of the last decision
  bool over = false;        ///< the job or service has ended
  bool closed = false;      ///< the coordinator accepts nothing anymore

  /// Returns the job and generation that requests must belong to.
  [[nodiscard]] Fence fence() const {
    return {.job_id = state.job.id, .generation = state.job.current.number, .cause = run.cause};
  }
};

}  // namespace pfc
