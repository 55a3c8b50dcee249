// The coordinator: runs jobs one after another. It updates the cluster's state from the reports of
// agents and workers, asks decide() for the next action, and executes it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/chaos/fault_requests.h"
#include "coordinator/checks/checks.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/jobs/jobs.h"
#include "coordinator/network/network_watch.h"
#include "coordinator/rules/quiet_hosts.h"
#include "coordinator/rules/rendezvous.h"
#include "coordinator/rules/verdict.h"
#include "coordinator/takeover/takeover.h"
#include "coordinator/traces/traces.h"
#include "coordinator/workers/workers.h"

namespace pfc {

/// Used on the event loop only, by one thread, so there are no locks.
class Coordinator {
 public:
  using Finished = std::function<void(const Verdict&)>;

  /// Owns neither the loop nor the terminal. `finished` is called once, on the loop, when the job
  /// or service and all workers have ended.
  Coordinator(boost::asio::io_context& loop, CoordinatorOptions options, Terminal& terminal,
              Finished finished);

  /// Starts the added job, if any, and the timeout for hosts to register. `address` (host:port) is
  /// printed for users who must start an agent; `launch_advice` says how a scheduler starts them.
  void start(const std::string& address, const std::string& launch_advice = {});
  /// Called with the results of a later lookup of these hosts.
  void hosts_looked_up(const std::vector<std::string>& names, const FoundAddresses& found);

  /// Ends the job and the coordinator. Workers first write a checkpoint; if `urgent`, they have
  /// only RendezvousConfig::terminate for it. `reason` names the requester: "SIGINT". A second
  /// call can make it urgent. Waiting jobs of a service are lost.
  void stop(const std::string& reason, bool urgent) { jobs_.stop_all(reason, urgent); }
  /// Drains a host. The workers write a checkpoint within the given time, at most
  /// RendezvousConfig::stop. Then the job continues without the host if ElasticConfig::min_workers
  /// allows it; otherwise it ends. The host is used again when another agent registers. A
  /// service's next job waits for that; if the service starts that agent itself, until the service
  /// is restarted.
  void drain(const std::string& host, const proto::HostLeaving& leaving);
  [[nodiscard]] bool has_host(const std::string& name);
  /// Asks a host's agent to inject a fault. Answers when the agent has replied.
  void inject_fault(const proto::InjectFaultRequest& request,
                    const Answer<proto::InjectFaultReply>& answer);
  /// Refuses all waiting requests, closes all links, and accepts nothing afterwards.
  void close();

  /// Returns the job and generation that requests must belong to.
  [[nodiscard]] Fence fence() const { return cluster_.fence(); }
  [[nodiscard]] proto::StatusReply status() const;
  /// Returns the metrics. Their counters are saved in the journal, so they never go back.
  [[nodiscard]] std::string metrics_text();
  /// For the page at /: events and curves, and the job as given (JSON; empty: no job).
  [[nodiscard]] const History& history() const { return cluster_.history; }
  [[nodiscard]] const std::string& job_json() const { return cluster_.run.job.json; }

  // The coordinator's parts.
  [[nodiscard]] Jobs& jobs() { return jobs_; }
  [[nodiscard]] Checks& checks() { return checks_; }
  [[nodiscard]] Traces& traces() { return traces_; }
  [[nodiscard]] Workers& workers() { return workers_; }
  [[nodiscard]] Takeover& takeover() { return takeover_; }

  /// See pfc::staying_agents().
  [[nodiscard]] std::string staying_agents() const { return pfc::staying_agents(cluster_.state); }

  /// Records an agent that was refused before it could register, for checks. Thread-safe.
  void agent_was_refused(const std::string& host, const std::string& why);
  /// Reports that a connection from this address stalls in its TLS handshake. Called on the event
  /// loop.
  void handshake_stalled(const std::string& address);

  // Reports of agents (coordinator_agents.cc). `peer` is the address of the connection.
  struct Registered {
    std::string host;  ///< name in --hosts
  };
  std::variant<Registered, Refusal> register_agent(const proto::AgentRegistration& registration,
                                                   const std::string& peer, AgentLink& link);
  /// Returns the name in --hosts of a host that calls itself `given` and connects from `peer`;
  /// nothing if it is not listed.
  [[nodiscard]] std::optional<std::string> listed_host(const std::string& given,
                                                       const std::string& peer);
  /// Returns the host whose agent has this id; nothing if there is none.
  [[nodiscard]] std::optional<std::string> host_of_agent(const std::string& agent_id) const;
  /// Returns the host of this rank's worker; nothing if there is none now.
  [[nodiscard]] std::optional<std::string> host_of_rank(Rank rank) const;
  void agent_said(const std::string& host, const proto::AgentMessage& message);
  void agent_link_closed(const std::string& host, AgentLink& link);
  /// Called when the local agent has ended. `exit`: empty if another coordinator started it,
  /// because its status is then unknown. Returns whether the job continues after a restart of the
  /// agent: the agent ended because it was without a coordinator for too long.
  bool local_agent_ended(const std::optional<ProcessExit>& exit);
  /// Called when the local agent could not be started.
  void local_agent_not_started(const std::string& why);

 private:
  /// Returns the job's state for users.
  [[nodiscard]] std::string shown_state() const;
  void tick();
  std::string current_metrics();
  void forgive_stall();
  void release_silent_hosts();
  [[nodiscard]] Decision decide_now(TimePoint now) const;
  void advance();  ///< calls decide() and acts, until there is nothing to do
  void set_reason(const std::string& reason, bool tell);
  /// Begins the next job if possible. Otherwise sets the reason.
  bool begin_next_job();
  void end_job(const Verdict& verdict);
  void end_service();
  /// Releases the agents that end with the job.
  void release_once_agents();
  void perform(const Action& action);
  void begin_generation(const action::StartGeneration& start);
  void finish_job();
  /// Sends the host's agent its desired slots.
  void send_desired(const std::string& host);
  void send_desired();  ///< to all agents
  void worker_event(const HostState& host, const proto::AgentMessage& message);
  /// Handles an agent whose host is drained.
  void agent_leaves(const std::string& host, const proto::HostLeaving& leaving);
  void worker_ended(WorkerState& worker, const proto::WorkerExited& exited);
  /// Called when another agent claims the host. Ends the stream of the current agent, or refuses.
  std::optional<Refusal> replace_agent(HostState& host, const std::string& agent_id,
                                       const std::string& peer);
  [[nodiscard]] HostState* match_host(const std::string& given, const std::string& peer);
  void warn_of_threads(const HostState& host, int threads_asked_for);
  void local_agent_failed(const std::string& what, bool at_start);

  boost::asio::steady_timer timer_;
  const Finished finished_;
  Cluster cluster_;
  Jobs jobs_{cluster_};
  Takeover takeover_{cluster_, jobs_};
  FaultRequests fault_requests_;
  std::map<std::string, std::string> own_names_;  ///< host in --hosts -> name that its agent gave
  Checks checks_{cluster_};
  Traces traces_{cluster_};
  Workers workers_{cluster_, takeover_, checks_, traces_};
  NetworkWatch network_{cluster_, [this](auto pairs) { checks_.set_pairs(std::move(pairs)); }};
  QuietHosts quiet_hosts_;
  TimePoint last_tick_;
  std::string shown_metrics_;  ///< last result of metrics_text()
  TimePoint metrics_shown_at_;
  TimePoint excused_until_;  ///< until then the local agent may have given up
};

}  // namespace pfc
