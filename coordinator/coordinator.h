// The coordinator: runs jobs one after another. It updates the cluster's state from the reports of
// agents and workers, asks decide() for the next action, and executes it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/agents/agents.h"
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

  /// Ends the job and the coordinator. Workers first write a checkpoint; if `urgent`, they get
  /// only the time RendezvousConfig::terminate for it. `reason` names the requester: "SIGINT". A
  /// second call can make it urgent. Waiting jobs of a service stay in its journal.
  void stop(const std::string& reason, bool urgent) { jobs_.stop_all(reason, urgent); }
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
  [[nodiscard]] const Jobs& jobs() const { return jobs_; }
  [[nodiscard]] Checks& checks() { return checks_; }
  [[nodiscard]] Traces& traces() { return traces_; }
  [[nodiscard]] Agents& agents() { return agents_; }
  [[nodiscard]] const Agents& agents() const { return agents_; }
  [[nodiscard]] Workers& workers() { return workers_; }
  [[nodiscard]] Takeover& takeover() { return takeover_; }

  /// See pfc::staying_agents().
  [[nodiscard]] std::string staying_agents() const { return pfc::staying_agents(cluster_.state); }

  /// Records an agent that was refused before it could register, for checks. Thread-safe.
  void agent_was_refused(const std::string& host, const std::string& why);
  /// Reports that a connection from this address stalls in its TLS handshake. Called on the event
  /// loop.
  void handshake_stalled(const std::string& address);

 private:
  /// Returns the job's state for users.
  [[nodiscard]] std::string shown_state() const;
  void tick();
  std::string current_metrics();
  void forgive_stall();
  [[nodiscard]] Decision decide_now(TimePoint now) const;
  void advance();  ///< calls decide() and acts, until there is nothing to do
  void set_reason(const std::string& reason, bool tell);
  /// Begins the next job if possible. Otherwise sets Cluster::reason.
  bool begin_next_job();
  void end_job(const Verdict& verdict);
  void end_service();
  void perform(const Action& action);
  void begin_generation(const action::StartGeneration& start);
  void finish_job();

  boost::asio::steady_timer timer_;
  const Finished finished_;
  Cluster cluster_;
  Jobs jobs_{cluster_};
  Takeover takeover_{cluster_, jobs_};
  Checks checks_{cluster_};
  Traces traces_{cluster_};
  Workers workers_{cluster_, takeover_, checks_, traces_};
  NetworkWatch network_{cluster_, [this](auto pairs) { checks_.set_pairs(std::move(pairs)); }};
  Agents agents_{cluster_, jobs_, takeover_, checks_, network_, workers_};
  QuietHosts quiet_hosts_;
  TimePoint last_tick_;
  std::string shown_metrics_;  ///< last result of metrics_text()
  TimePoint metrics_shown_at_;
};

}  // namespace pfc
