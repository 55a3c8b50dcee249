// Requests and reports of the hosts' agents.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "coordinator/checks/checks.h"
#include "coordinator/cluster/agent_requests.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/jobs/jobs.h"
#include "coordinator/network/network_watch.h"
#include "coordinator/takeover/takeover.h"
#include "coordinator/workers/workers.h"

namespace pfc {

/// Used on the event loop only.
class Agents {
 public:
  using FaultRequests = AgentRequests<proto::FaultReport>;

  Agents(Cluster& cluster, Jobs& jobs, Takeover& takeover, Checks& checks, NetworkWatch& network,
         Workers& workers);

  // Reports of agents. `peer` is the address of the connection.

  /// Registers the agent for the host that listed_host() gives. Returns why it is refused, if it
  /// is.
  std::optional<Refusal> add(const proto::AgentRegistration& registration, const std::string& peer,
                             AgentLink& link);
  void said(const std::string& host, const proto::AgentMessage& message);
  void link_closed(const std::string& host, AgentLink& link);
  /// Called when the local agent has ended. `exit`: empty if another coordinator started it,
  /// because its status is then unknown. Returns true if the agent must be restarted for the job,
  /// because it seems to have ended after too long without a coordinator.
  bool local_agent_ended(const std::optional<ProcessExit>& exit);
  /// Called when the local agent could not be started.
  void local_agent_not_started(const std::string& why) { local_agent_failed(why, true); }

  // Requests.

  /// Drains a host. The workers write a checkpoint within the given time, at most
  /// RendezvousConfig::stop. Then the job continues without the host if ElasticConfig::min_workers
  /// allows it; otherwise it ends. The host is used again when another agent registers, and a
  /// service's next job waits for that. An agent that the service starts itself is started again
  /// only when the service is restarted.
  void drain(const std::string& host, const proto::HostLeaving& leaving);
  /// Asks a host's agent to inject a fault. Answers when the agent has replied.
  void inject_fault(const proto::InjectFaultRequest& request,
                    const Answer<proto::InjectFaultReply>& answer);
  [[nodiscard]] bool has_host(const std::string& name) const;
  /// Returns the name in --hosts of a host that calls itself `given` and connects from `peer`;
  /// nothing if it is not listed.
  [[nodiscard]] std::optional<std::string> listed_host(const std::string& given,
                                                       const std::string& peer) const;
  /// Returns the host whose agent has this id; nothing if there is none.
  [[nodiscard]] std::optional<std::string> host_of_agent(const std::string& agent_id) const;
  /// Returns the host of this rank's worker; nothing if there is none now.
  [[nodiscard]] std::optional<std::string> host_of_rank(Rank rank) const;

  // For the coordinator.

  /// Sends the host's agent its desired slots. If the agent is not connected, the slots are sent
  /// when it reconnects.
  void send_desired(const std::string& host) const;
  void send_desired() const;  ///< to all agents
  /// Requires the host's agent, which was silent for too long, to register again.
  void must_register_again(const std::string& host) const;
  /// Without a job: requires silent agents to register again. The next job waits for their hosts.
  void release_silent(TimePoint now);
  /// Releases the agents that end with the job.
  void release_once();
  /// If the local agent ends before this time, this is not a failure: it may have been without a
  /// coordinator for too long.
  void excuse_local_agent(TimePoint until) { excused_until_ = until; }
  [[nodiscard]] FaultRequests& fault_requests() { return fault_requests_; }

 private:
  /// Called when another agent claims the host. Ends the stream of the current agent, or refuses.
  std::optional<Refusal> replace(HostState& host, const std::string& agent_id,
                                 const std::string& peer);
  [[nodiscard]] HostState* match(const std::string& given, const std::string& peer) const;
  /// Returns whether the coordinator starts the host's agent.
  [[nodiscard]] bool is_own(const HostState& host) const {
    return host.local && !cluster_.options.local_agent_id.empty();
  }
  void warn_of_threads(const HostState& host, int threads_asked_for);
  void worker_event(const HostState& host, const proto::AgentMessage& message);
  /// Handles an agent whose host is drained.
  void leaves(const std::string& host, const proto::HostLeaving& leaving);
  void worker_ended(WorkerState& worker, const proto::WorkerExited& exited);
  void local_agent_failed(const std::string& what, bool at_start);

  Cluster& cluster_;
  Jobs& jobs_;
  Takeover& takeover_;
  Checks& checks_;
  NetworkWatch& network_;
  Workers& workers_;
  FaultRequests fault_requests_;
  std::map<std::string, std::string> own_names_;  ///< host in --hosts -> name that its agent gave
  TimePoint excused_until_;
};

}  // namespace pfc
