// The coordinator: turns what agents and workers report into changes of the cluster's state, asks
// decide() what to do next, and does it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"
#include "coordinator/hosts.h"
#include "coordinator/join_barrier.h"
#include "coordinator/key_values.h"
#include "coordinator/refusal.h"
#include "coordinator/rendezvous.h"
#include "coordinator/report/job_progress.h"
#include "coordinator/report/metrics.h"
#include "coordinator/report/terminal.h"

namespace pfc {

/// One open stream towards an agent or a worker. Owned by the service, which calls
/// agent_link_closed() or worker_link_closed() before it destroys one.
template <typename Command>
class Link {
 public:
  virtual void send(Command command) = 0;
  virtual void close(const Refusal& why) = 0;

 protected:
  ~Link() = default;
};
using AgentLink = Link<proto::AgentCommand>;
using WorkerLink = Link<proto::WorkerCommand>;

struct CoordinatorOptions {
  std::string job_id;  ///< random: no other coordinator, before or after this one, has the same
  std::vector<HostSpec> hosts;
  std::string job_json;  ///< sent to every worker when it joins
  RendezvousConfig rendezvous;
  std::chrono::milliseconds collective_timeout{300'000};  ///< sent to the workers
  std::chrono::milliseconds tick{100};                    ///< decide() is asked at least so often
};

/// Used on the event loop only, which one thread runs: so there is no lock.
class Coordinator {
 public:
  using Finished = std::function<void(const Verdict&)>;

  /// Borrows the loop and the terminal. `finished` is called once, on the loop, when every worker
  /// has ended.
  Coordinator(boost::asio::io_context& loop, CoordinatorOptions options, Terminal& terminal,
              Finished finished);

  /// Starts the time limit for hosts to register. `address` (host:port) is shown to people who must
  /// start an agent.
  void start(const std::string& address);
  /// Ends the job. Workers write a checkpoint first; when it is `urgent`, they have only
  /// RendezvousConfig::terminate for it. `reason` says who asked: "SIGINT". A second call can make
  /// it urgent.
  void stop(const std::string& reason, bool urgent);
  /// Refuses every waiting request, closes every link, and accepts nothing afterwards.
  void close();

  /// What requests must belong to.
  [[nodiscard]] Fence fence() const {
    return {.job_id = state_.job_id, .generation = state_.generation};
  }
  [[nodiscard]] proto::StatusReply status() const;
  [[nodiscard]] std::string metrics_text() {
    return metrics_.text(state_, progress_, terminal_.dropped_lines());
  }

  // What agents report. `peer` is the address that the connection comes from.
  struct Registered {
    std::string host;  ///< the name that --hosts has for it
  };
  std::variant<Registered, Refusal> register_agent(const proto::AgentRegistration& registration,
                                                   const std::string& peer, AgentLink& link);
  void agent_said(const std::string& host, const proto::AgentMessage& message);
  void agent_link_closed(const std::string& host, AgentLink& link);
  /// The agent that the coordinator has started on this machine has ended.
  void local_agent_ended(const ProcessExit& exit);
  /// It could not be started.
  void local_agent_not_started(const std::string& why);

  // What workers report.
  void join(const proto::JoinRequest& request, Answer<proto::JoinReply> answer);
  bool attach_worker(Rank rank, WorkerLink& link);  ///< false: there is no such rank
  void worker_said(const proto::WorkerMessage& message);
  void worker_link_closed(Rank rank, WorkerLink& link);
  void finish(const proto::FinishRequest& request, const Answer<proto::FinishReply>& answer);
  void set_value(const proto::SetValueRequest& request, const Answer<proto::SetValueReply>& answer);
  void get_value(const proto::GetValueRequest& request, const Answer<proto::GetValueReply>& answer);

 private:
  void tick();
  void advance();  ///< asks decide() and acts, until there is nothing to do
  void perform(const Decision& decision);
  void finish_job();
  /// Tells the host's agent what is to run there.
  void send_desired(const std::string& host);
  void send_desired();  ///< to all agents
  void ask_workers_to_stop();
  void note_progress(WorkerState& worker, const proto::Progress& progress, TimePoint now);
  void worker_event(const HostState& host, const proto::AgentMessage& message);
  void worker_ended(WorkerState& worker, const proto::WorkerExited& exited);
  /// The agent with this id wants the host. Ends the stream of the one that has it, or refuses.
  std::optional<Refusal> replace_agent(HostState& host, const std::string& agent_id,
                                       const std::string& peer);
  [[nodiscard]] HostState* match_host(const std::string& name, const std::string& peer);
  void local_agent_failed(const std::string& what, bool at_start);
  void set_local_address();

  boost::asio::steady_timer timer_;
  const CoordinatorOptions options_;
  Terminal& terminal_;
  const Finished finished_;
  Metrics metrics_;
  ClusterState state_;
  JobProgress progress_;
  JoinBarrier joins_;
  KeyValues values_;
  std::map<std::string, AgentLink*> agents_;  ///< by host
  std::map<Rank, WorkerLink*> workers_;
  std::string reason_;  ///< of the last decision
  bool over_ = false;   ///< finished_ was called
  bool closed_ = false;
};

}  // namespace pfc
