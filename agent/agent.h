// The agent of one host: it registers the host with the coordinator, keeps those workers running
// that the coordinator wants, job after job, keeps their logs, and reports their output and end.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/agent_options.h"
#include "agent/chaos/faults.h"
#include "agent/describe/worker_describer.h"
#include "agent/logs/worker_logs.h"
#include "agent/network/network_probe.h"
#include "agent/outbox.h"
#include "agent/silence_notice.h"
#include "agent/workers/group_guard.h"
#include "agent/workers/worker_command.h"
#include "agent/workers/worker_slots.h"
#include "common/ids.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/reconnecting_stream.h"

namespace pfc {

/// Used on the event loop only. REQUIRES: the loop runs on the thread that makes this object.
class Agent {
 public:
  /// Takes the reason why it has ended; empty when it was asked to.
  using Ended = std::function<void(const std::string& problem)>;

  /// `ended` is called once, when no worker is left.
  Agent(boost::asio::io_context& loop, AgentOptions options, Ended ended);
  ~Agent();

  /// Ends the workers (SIGTERM, after `grace` SIGKILL), then itself.
  void end(const std::string& problem);
  /// The coordinator that has started this agent was killed. Its workers train on for
  /// `coordinator_grace`; without one they end now, and the agent with them.
  void coordinator_killed();
  /// The host must be free soon: asks the coordinator to end the job after a checkpoint, or to go
  /// on without this host, and ends when it has, or after AgentOptions::leave_grace; without a
  /// worker, after a moment at the latest. Starts no worker from then on. Without a job it ends at
  /// once; without a connection too, and the workers have AgentOptions::leave_grace for a
  /// checkpoint. `reason` says who asked: "SIGTERM".
  void leave(const std::string& reason);
  void kill_workers() { workers_.send(SIGKILL); }

 private:
  /// end() with `lost_grace`: the coordinator has gone without a word.
  void end_without_coordinator(const std::string& problem);
  void end_within(std::chrono::milliseconds grace, const std::string& problem);
  /// SIGTERM, and after `grace` SIGKILL. Starts none until the coordinator wants some again.
  void let_workers_end(std::chrono::milliseconds grace);
  using Stream = ReconnectingStream<proto::AgentMessage, proto::AgentCommand>;

  void connect();
  /// There is no connection. Returns whether to try again.
  bool connection_lost(const grpc::Status& status, std::chrono::milliseconds silence);
  void obey(const proto::AgentCommand& command);
  /// Another job: what is left of the last one is killed. None (an empty id), as a coordinator says
  /// that knows nothing of it: the workers write a checkpoint first.
  void begin_job(const std::string& job_id);
  void send_log(const proto::ReadLog& wanted);
  /// Tells what a worker does, and lets it write its stack first, where it can.
  void describe(const proto::DescribeWorker& wanted);
  /// Breaks something on purpose, where that is allowed, and answers.
  void inject(const proto::Fault& fault);
  /// Makes what runs what is wanted. Called after every change of either.
  void reconcile();
  /// What the workers' places report.
  [[nodiscard]] WorkerSlots::Handler slot_handler();
  /// That a worker has in the current generation; `first`: that it was started with.
  [[nodiscard]] Rank rank_of(const proto::WorkerOutput& said, Rank first) const;
  void worker_said(proto::AgentMessage said, Rank first);
  /// Ends where it was asked to, or the job is over that it wanted to leave, and no worker is left.
  void end_if_alone();
  [[nodiscard]] proto::AgentMessage message() const;  ///< of the current job
  void tell(proto::AgentMessage event);
  void tell(const proto::NetworkReport& report);  ///< on any thread

  GroupGuard guard_;  // first: it is made before any thread
  boost::asio::io_context& loop_;
  const AgentOptions options_;
  const Ended ended_;
  const std::string id_;
  const WorkerCommand worker_command_;
  const std::shared_ptr<grpc::Channel> channel_;  // shared with stub_ and stream_
  const std::unique_ptr<proto::CoordinatorService::Stub> stub_;
  boost::asio::steady_timer leave_;
  WorkerDescriber describer_;
  bool connected_ = false;  // the coordinator has spoken since the last failed attempt
  // How long it goes on without a coordinator, in milliseconds. Used by the stream's thread too.
  std::atomic<std::int64_t> limit_;
  std::optional<std::chrono::milliseconds> told_grace_;  // by the last coordinator
  bool lost_ = false;  // the workers are ended because no coordinator was there for so long
  Outbox outbox_;
  std::string job_id_;           // empty: the coordinator has not told it yet
  proto::DesiredSlots desired_;  // of this job
  WorkerSlots workers_;
  Faults faults_;
  bool leaving_ = false;                 ///< no coordinator wants the workers
  std::optional<std::string> left_job_;  ///< that ran when the host had to be free
  bool ending_ = false;
  std::string problem_;
  SilenceNotice notice_;              // used by the stream's thread only
  std::unique_ptr<WorkerLogs> logs_;  // null: none are kept
  std::unique_ptr<Stream> stream_;    // its threads use what is above
  NetworkProbe network_{[this](const proto::NetworkReport& report) { tell(report); }};  // likewise
};

}  // namespace pfc
