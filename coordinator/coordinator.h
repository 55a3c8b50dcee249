// The coordinator itself: notes what it hears in the state, asks decide(), and does what it says.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"
#include "coordinator/hosts.h"
#include "coordinator/job_progress.h"
#include "coordinator/join_barrier.h"
#include "coordinator/key_values.h"
#include "coordinator/metrics.h"
#include "coordinator/refusal.h"
#include "coordinator/rendezvous.h"
#include "coordinator/terminal.h"

namespace pfc {

/// One open stream towards an agent or a worker. Borrowed from the service, which tells when it has
/// gone.
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
  std::vector<HostSpec> hosts;
  std::string job_json;  ///< every worker gets it when it joins
  RendezvousConfig rendezvous;
  std::chrono::milliseconds collective_timeout{300'000};  ///< told to the workers
  std::chrono::milliseconds tick{100};
};

/// On the event loop only: one thread owns everything, so there is no lock.
class Coordinator {
 public:
  using Finished = std::function<void(const Verdict&)>;

  /// All borrowed. `finished` is called once, from the loop, when every worker has ended.
  Coordinator(boost::asio::io_context& loop, CoordinatorOptions options, Terminal& terminal,
              Finished finished);

  /// The time in which hosts have to register begins. `address` is how agents reach this.
  void start(const std::string& address);
  void stop(const std::string& reason, bool urgent);
  /// Refuses all who wait and closes all links: nothing else is accepted afterwards.
  void close();

  [[nodiscard]] Generation generation() const { return state_.generation; }
  [[nodiscard]] proto::StatusReply status() const;
  [[nodiscard]] std::string metrics_text() { return metrics_.text(state_, progress_); }

  // What agents say. `peer` is the address that the connection comes from.
  struct Registered {
    std::string host;
  };
  std::variant<Registered, Refusal> register_agent(const proto::AgentRegistration& registration,
                                                   const std::string& peer, AgentLink& link);
  void agent_said(const std::string& host, const proto::AgentMessage& message);
  void agent_link_closed(const std::string& host, AgentLink& link);
  /// The agent that this machine started for itself has ended.
  void local_agent_ended(const ProcessExit& exit);

  // What workers say.
  void join(const proto::JoinRequest& request, Answer<proto::JoinReply> answer);
  bool attach_worker(Rank rank, WorkerLink& link);  ///< false: there is no such rank
  void worker_said(const proto::WorkerMessage& message);
  void worker_link_closed(Rank rank, WorkerLink& link);
  void finish(const proto::FinishRequest& request, const Answer<proto::FinishReply>& answer);
  void set_value(const proto::SetValueRequest& request, const Answer<proto::SetValueReply>& answer);
  void get_value(const proto::GetValueRequest& request, const Answer<proto::GetValueReply>& answer);

 private:
  void tick();
  void advance();  ///< decide() and act, until there is nothing to do
  void perform(const Decision& decision, TimePoint now);
  void start_generation(const std::vector<Member>& members, TimePoint now);
  /// Starts this host's workers; an agent that has started them already does nothing.
  void send_start(const std::string& host);
  void signal_workers(bool kill);
  void ask_workers_to_stop();
  void note_progress(WorkerState& worker, const proto::Progress& progress, TimePoint now);
  void worker_event(const std::string& host, const proto::AgentMessage& message);
  [[nodiscard]] HostState* match_host(const std::string& name, const std::string& peer);
  [[nodiscard]] std::string reachable_address(const HostState& host, const std::string& peer) const;

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
