// The open streams to agents and workers.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "coordinator/rules/cluster_state.h"
#include "coordinator/rules/refusal.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// An open stream to an agent or worker. Owned by the service, which calls
/// Agents::link_closed() or Workers::link_closed() before destroying it.
template <typename Command>
class CommandLink {
 public:
  virtual void send(Command command) = 0;
  virtual void close(const Refusal& why) = 0;

 protected:
  ~CommandLink() = default;
};
using AgentLink = CommandLink<proto::AgentCommand>;
using WorkerLink = CommandLink<proto::WorkerCommand>;

/// Used on the event loop only. Does not own the links.
class Links {
 public:
  /// Does not own the state, which has the id of the running job.
  explicit Links(const ClusterState& state) : state_(state) {}

  /// Replaces the link of the host's agent.
  void add_agent(const std::string& host, AgentLink& link) { agents_[host] = &link; }
  /// Returns false, without changes, if another link has replaced this one.
  bool remove_agent(const std::string& host, const AgentLink& link);
  [[nodiscard]] bool has_agent(const std::string& host) const { return agents_.contains(host); }
  [[nodiscard]] std::size_t agent_count() const { return agents_.size(); }
  /// Sends the command, with the id of the running job, if the host's agent is connected.
  void send(const std::string& host, proto::AgentCommand command) const;
  /// Closes the link of the host's agent, if there is one.
  void close_agent(const std::string& host, const Refusal& why) const;
  /// Orders the host's agent to end, if it is connected.
  void end_agent(const std::string& host) const;

  /// Closes the rank's last link and replaces it.
  void add_worker(Rank rank, WorkerLink& link);
  /// Does nothing if another link has replaced this one.
  void remove_worker(Rank rank, const WorkerLink& link);
  [[nodiscard]] bool has_worker(Rank rank) const { return workers_.contains(rank); }
  /// Sends the command if the rank's worker is connected.
  void send(Rank rank, const proto::WorkerCommand& command) const;
  void send_to_workers(const proto::WorkerCommand& command) const;
  /// Closes and removes the links of all workers.
  void close_workers(const Refusal& why);

  /// Orders all agents to end. Closes and removes all links.
  void close();

 private:
  const ClusterState& state_;
  std::map<std::string, AgentLink*> agents_;  ///< by host
  std::map<Rank, WorkerLink*> workers_;
};

}  // namespace pfc
