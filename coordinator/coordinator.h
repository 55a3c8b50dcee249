// The coordinator: takes jobs one after another, turns what agents and workers report into changes
// of the cluster's state, asks decide() what to do next, and does it.
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

#include "coordinator/allocation/hosts.h"
#include "coordinator/chaos/fault_requests.h"
#include "coordinator/check/check_record.h"
#include "coordinator/chronicle/chronicle.h"
#include "coordinator/cluster_state.h"
#include "coordinator/jobs/job_queue.h"
#include "coordinator/jobs/log_requests.h"
#include "coordinator/join_barrier.h"
#include "coordinator/journal/journal.h"
#include "coordinator/key_values.h"
#include "coordinator/metrics/metrics.h"
#include "coordinator/network/network_measurement.h"
#include "coordinator/progress/stragglers.h"
#include "coordinator/refusal.h"
#include "coordinator/rendezvous.h"
#include "coordinator/report/job_progress.h"
#include "coordinator/report/quiet_hosts.h"
#include "coordinator/report/terminal.h"
#include "coordinator/trace/trace_gatherer.h"
#include "coordinator/verdict.h"

namespace pfc {

/// One open stream towards an agent or a worker. Owned by the service, which calls
/// agent_link_closed() or worker_link_closed() before it destroys one.
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

/// Workers wait for each other so much longer than the coordinator does, whose message names those
/// that are missing.
inline constexpr std::chrono::milliseconds kJoinSlack{10'000};

struct CoordinatorOptions {
  std::vector<HostSpec> hosts;
  /// It waits for jobs, and runs each when all hosts are here. Otherwise it ends with its job.
  bool is_service = false;
  std::string local_agent_id = {};  ///< of the agent that it starts itself; empty: it starts none
  RendezvousConfig rendezvous;      ///< of every job, but for the device
  NetworkWish network = {};         ///< among whose addresses those of the workers are chosen
  std::chrono::milliseconds collective_timeout{300'000};  ///< sent to the workers
  std::chrono::milliseconds coordinator_grace{600'000};   ///< sent to the agents
  std::chrono::milliseconds tick{100};                    ///< decide() is asked at least so often
};

/// Used on the event loop only, which one thread runs: so there is no lock.
class Coordinator {
 public:
  using Finished = std::function<void(const Verdict&)>;

  /// Borrows the loop and the terminal. `finished` is called once, on the loop, when the job has
  /// ended, or the service, and every worker with it.
  Coordinator(boost::asio::io_context& loop, CoordinatorOptions options, Terminal& terminal,
              Finished finished);

  /// Starts the job that was added, if one was, and the time limit for hosts to register. `address`
  /// (host:port) is shown to people who must start an agent; `launch_advice` says how a scheduler
  /// starts them all, where one does.
  void start(const std::string& address, const std::string& launch_advice = {});

  /// Ends the job, and the coordinator with it. Workers write a checkpoint first; when it is
  /// `urgent`, they have only RendezvousConfig::terminate for it. `reason` says who asked:
  /// "SIGINT". A second call can make it urgent. The jobs that wait in a service are lost.
  void stop(const std::string& reason, bool urgent);
  /// The host must be free soon. The workers write a checkpoint within the time that is told, at
  /// most RendezvousConfig::stop; then the job goes on without the host where
  /// ElasticConfig::min_workers allows it, and ends otherwise. The host takes part again when
  /// another agent has it. The next job of a service waits for that, or until the service was
  /// started again where it starts that agent itself.
  void drain(const std::string& host, const proto::HostLeaving& leaving);
  [[nodiscard]] bool has_host(const std::string& name);
  /// Asks the agent of a host to break something on purpose. The answer comes when it has answered.
  void inject_fault(const proto::InjectFaultRequest& request,
                    const Answer<proto::InjectFaultReply>& answer);
  /// Refuses every waiting request, closes every link, and accepts nothing afterwards.
  void close();

  /// What requests must belong to.
  [[nodiscard]] Fence fence() const {
    return {.job_id = state_.job.id, .generation = state_.job.current.number, .cause = run_.cause};
  }
  [[nodiscard]] proto::StatusReply status() const;
  /// For a page that is read again and again. What it tells is in the journal: so no counter is
  /// ever seen to go back.
  [[nodiscard]] std::string metrics_text();
  /// For the page at /: what was, and the job as it was given (JSON; empty: no job runs).
  [[nodiscard]] const Chronicle& chronicle() const { return chronicle_; }
  [[nodiscard]] const std::string& job_json() const { return run_.job.json; }

  // The journal (coordinator_takeover.cc).

  /// Goes on where the coordinator with this journal was killed. Agents and workers have
  /// HealthLimits::start to come back before their silence counts. REQUIRES: called before keep()
  /// and start(), and no job was added.
  void take_over(const JournalValues& saved);
  /// Keeps there from now on what the next coordinator needs. `own`: the ports, and the agent that
  /// was started here, if it was. Borrows the journal.
  void keep(Journal& journal, const proto::SavedCoordinator& own);

  // What people ask about jobs (coordinator_jobs.cc). A job is named by its id, or by the beginning
  // of it.

  /// Puts a job that was checked at the end of the queue.
  std::optional<Refusal> add(Job job);
  /// `submitter`: as Job::submitter.
  void submit(const proto::SubmitRequest& request, const std::string& submitter,
              const Answer<proto::SubmitReply>& answer);
  /// Returns Job::submitter of the job whose id begins with `begin`; an empty `begin` means
  /// last_job(). Returns nothing if there is no such job.
  [[nodiscard]] std::optional<std::string> submitter_of(const std::string& begin) const;
  void stop_job(const proto::StopRequest& request, const Answer<proto::StopReply>& answer);
  [[nodiscard]] proto::QueueReply queue() const;
  /// The job that runs, or else the last one that has ended; empty: there was none.
  [[nodiscard]] std::string last_job() const;
  void read_log(const proto::LogsRequest& request, const Answer<proto::LogsReply>& answer);

  // Checks (coordinator_check.cc, docs/check.md).

  /// What the check with this id has found, or what it waits for. The last few are kept.
  void check_result(const proto::CheckResultRequest& request,
                    const Answer<proto::CheckResultReply>& answer) const;
  /// Of the last check that has ended; null: none has.
  [[nodiscard]] const proto::CheckReport* last_check() const;
  void report_check(const proto::ReportCheckRequest& request,
                    const Answer<proto::ReportCheckReply>& answer);

  // Traces (coordinator_trace.cc, docs/trace.md).

  /// Tells the workers of the job that runs which steps they record.
  void start_trace(const proto::StartTraceRequest& request,
                   const Answer<proto::StartTraceReply>& answer);
  void read_trace(const proto::ReadTraceRequest& request, Answer<proto::ReadTraceReply> answer,
                  const Patience& patience);
  void send_trace(const proto::SendTraceRequest& request,
                  const Answer<proto::SendTraceReply>& answer);

  /// As pfc::staying_agents().
  [[nodiscard]] std::string staying_agents() const { return pfc::staying_agents(state_); }

  /// An agent did not come as far as to register. For checks; thread-safe.
  void agent_was_refused(const std::string& host, const std::string& why);
  /// Reports that a connection from this address stalls in its TLS handshake. Call it on the event
  /// loop.
  void handshake_stalled(const std::string& address);

  // What agents report (coordinator_agents.cc). `peer` is the address that the connection comes
  // from.
  struct Registered {
    std::string host;  ///< the name that --hosts has for it
  };
  std::variant<Registered, Refusal> register_agent(const proto::AgentRegistration& registration,
                                                   const std::string& peer, AgentLink& link);
  /// The name in --hosts of a host that calls itself `given` and connects from `peer`; none: it is
  /// not there.
  [[nodiscard]] std::optional<std::string> listed_host(const std::string& given,
                                                       const std::string& peer);
  /// The host that has an agent with this id; none: none has.
  [[nodiscard]] std::optional<std::string> host_of_agent(const std::string& agent_id) const;
  /// The host of this rank's worker; none: there is no such rank now.
  [[nodiscard]] std::optional<std::string> host_of_rank(Rank rank) const;
  void agent_said(const std::string& host, const proto::AgentMessage& message);
  void agent_link_closed(const std::string& host, AgentLink& link);
  /// The coordinator has started the agent of this machine as process `pid`, which the next
  /// coordinator can take over. `serial`: of its certificate; empty in plaintext.
  void local_agent_runs(pid_t pid, const std::string& serial);
  /// The agent that the coordinator has started on this machine has ended. `exit`: empty where
  /// another coordinator has started it, so that nobody knows how. Returns whether the job goes on
  /// when it is started again: it has ended because there was no coordinator for too long.
  bool local_agent_ended(const std::optional<ProcessExit>& exit);
  /// It could not be started.
  void local_agent_not_started(const std::string& why);

  // What workers report.
  void join(const proto::JoinRequest& request, Answer<proto::JoinReply> answer,
            const Patience& patience);
  bool attach_worker(Rank rank, WorkerLink& link);  ///< false: there is no such rank
  void worker_said(const proto::WorkerMessage& message);
  void worker_link_closed(Rank rank, WorkerLink& link);
  void finish(const proto::FinishRequest& request, const Answer<proto::FinishReply>& answer);
  void set_value(const proto::SetValueRequest& request, const Answer<proto::SetValueReply>& answer);
  void get_value(const proto::GetValueRequest& request, const Answer<proto::GetValueReply>& answer,
                 const Patience& patience);
  void get_values(const proto::GetValuesRequest& request, Answer<proto::GetValuesReply> answer,
                  const Patience& patience);

 private:
  /// What there is of the job that runs, beside its state. The next job replaces it.
  struct Run {
    Job job;
    RendezvousConfig config;
    JobProgress progress;
    Stragglers stragglers;  ///< of the current generation
    JoinBarrier joins;
    KeyValues values;
    std::map<Rank, WorkerLink*> workers;
    std::string cause;  ///< of the last restart
    WallTime started;
    std::optional<CheckRecord> check;  ///< empty: the job is no check
  };

  /// Of the job, as people read it.
  [[nodiscard]] std::string shown_state() const;
  void tick();
  std::string current_metrics();
  /// What has changed is in the journal soon.
  void save_soon() { unsaved_ = true; }
  /// It is there when this returns, unless the disk does not take it in time.
  void save_now();
  void save(bool with_progress);
  void save_job();
  void save_run();
  void save_worker(const WorkerState& worker);  ///< is there when this returns, likewise
  void save_queue();
  /// While a change of the journal is open.
  void save_progress();
  void save_if_due(TimePoint now);
  void take_over_job(const JournalValues& saved, TimePoint heard);
  /// The host of which the coordinator starts the agent itself; null: there is none.
  [[nodiscard]] const HostState* find_local_host() const;
  /// The agent of this machine has ended with its coordinator, and its workers with it.
  void lose_local_agent(TimePoint now);
  /// The worker comes from a generation that the journal which was taken over did not have. Its
  /// number is not given again.
  void catch_up(const WorkerState& worker, Generation left);
  /// Says when everybody is back.
  void see_takeover(TimePoint now);
  void forgive_stall();
  void release_silent_hosts();
  void begin_check();
  [[nodiscard]] Decision decide_now() const;
  /// What the check knows before this is done.
  void note_check(const Action& action);
  [[nodiscard]] proto::CheckPart part_of_check() const;
  [[nodiscard]] Verdict end_check();
  /// Why a worker of another version may not join; empty: it may.
  [[nodiscard]] std::optional<Refusal> wrong_version(const proto::JoinRequest& request,
                                                     const WorkerState& worker) const;
  void advance();  ///< asks decide() and acts, until there is nothing to do
  void set_reason(const std::string& reason, bool tell);
  /// The next job, if there is one and it can begin. Otherwise says what is awaited.
  bool begin_next_job();
  [[nodiscard]] bool may_begin_job();
  [[nodiscard]] std::string awaited_hosts() const;  ///< empty: the next job can begin
  void end_job(const Verdict& verdict);
  void end_service();
  /// Those of which each ends with the job.
  void release_once_agents();
  void tell_to_end(AgentLink& agent) const;
  void stop_running(const std::string& reason, bool urgent);
  void lose_waiting_jobs();
  /// The id of the only job that this can mean.
  [[nodiscard]] std::variant<std::string, Refusal> find_job(const std::string& begin) const;
  void ask_for_log(const std::string& job_id, const std::string& host, AgentLink& agent,
                   const proto::LogsRequest& request, const Answer<proto::LogsReply>& answer);
  /// It waits, or waits for its hosts.
  [[nodiscard]] bool has_no_worker_yet(const std::string& job_id) const;
  /// On which this rank runs or has run; empty: the job has no such rank.
  [[nodiscard]] std::string host_of(const std::string& job_id, Rank rank);
  void perform(const Action& action);
  void complete_join();  ///< answers the joins of a generation whose workers have all joined
  void begin_generation(const action::StartGeneration& start);
  void finish_job();
  /// Tells the host's agent what is to run there.
  void send_desired(const std::string& host);
  void send_desired();  ///< to all agents
  void ask_workers_to_stop();
  void ask_what_it_does(Rank rank);
  void worker_described(WorkerState& worker, const std::string& text);
  void tell_stragglers();
  void begin_trace(const TraceSteps& steps, TimePoint now);
  void see_trace(TimePoint now);
  [[nodiscard]] std::int64_t step_for_readers() const;
  void note_progress(WorkerState& worker, const proto::Progress& progress, TimePoint now);
  /// A worker reports the end of its work in an earlier generation.
  proto::FinishReply finish_late(const WorkerState& worker, const proto::FinishRequest& request);
  void worker_event(const HostState& host, const proto::AgentMessage& message);
  /// Its host must be free.
  void agent_leaves(const std::string& host, const proto::HostLeaving& leaving);
  void worker_ended(WorkerState& worker, const proto::WorkerExited& exited);
  /// The agent with this id wants the host. Ends the stream of the one that has it, or refuses.
  std::optional<Refusal> replace_agent(HostState& host, const std::string& agent_id,
                                       const std::string& peer);
  [[nodiscard]] HostState* match_host(const std::string& given, const std::string& peer);
  void warn_of_threads(const HostState& host, int threads_asked_for);
  /// Prints a warning if RefusedAgents::add() says so.
  void note_refused_agent(const std::string& host, const std::string& why);
  void local_agent_failed(const std::string& what, bool at_start);
  void set_local_address();

  // The network between the hosts (coordinator_network.cc).
  void measure_network();
  void network_said(const std::string& host, const proto::NetworkReport& report);
  /// Which one this host is in the last measurement; empty: it took no part.
  [[nodiscard]] std::optional<int> measured_number(const std::string& host) const;
  /// Takes its result over, when there is one.
  void see_measurement();

  boost::asio::steady_timer timer_;
  const CoordinatorOptions options_;
  Terminal& terminal_;
  const Finished finished_;
  Metrics metrics_;
  ClusterState state_;
  Run run_;
  JobQueue queue_;
  LogRequests log_requests_;
  FaultRequests fault_requests_;
  RefusedAgents refused_agents_;
  std::map<std::string, std::string> own_names_;  ///< host in --hosts -> name that its agent gave
  std::deque<std::pair<std::string, proto::CheckReport>> checks_;  ///< the last, by job id
  TraceGatherer trace_;
  QuietHosts quiet_hosts_;
  Chronicle chronicle_;
  std::optional<NetworkMeasurement> measurement_;  ///< that goes on; empty: none does
  std::vector<std::size_t> measured_;              ///< hosts of the last measurement, as in state_
  std::map<std::string, AgentLink*> agents_;       ///< by host
  std::string reason_;                             ///< of the last decision
  TimePoint last_tick_;
  std::string shown_metrics_;  ///< what metrics_text() has given last
  TimePoint metrics_shown_at_;
  std::int64_t refused_jobs_ = 0;
  Journal* journal_ = nullptr;              ///< null: none is kept
  proto::SavedCoordinator own_;             ///< what main has told, and the takeovers
  bool unsaved_ = false;                    ///< something has changed since the last save()
  TimePoint progress_saved_;                ///< when the progress was saved last
  Clock::duration progress_took_{};         ///< the last time
  std::set<std::string> queued_;            ///< jobs of the queue that the journal has
  std::string saved_job_;                   ///< whose configuration it has
  std::optional<TimePoint> awaited_since_;  ///< that those who were taken over come back
  double takeover_seconds_ = -1;            ///< until they were; negative: not yet
  TimePoint excused_until_;                 ///< its own agent, which may have given it up
  std::string ending_;                      ///< who has asked the service to end; empty: nobody
  bool was_forced_ = false;                 ///< a job has failed since then
  bool over_ = false;                       ///< finished_ was called
  bool closed_ = false;
};

}  // namespace pfc
