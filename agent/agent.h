// Agent of one host. It registers the host with the coordinator, starts and ends workers as
// requested, for one job after another, stores their logs, and reports their output and exit.
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
#include "agent/logs/worker_logs.h"
#include "agent/network/network_probe.h"
#include "agent/outbox.h"
#include "agent/silence_notice.h"
#include "agent/workers/group_guard.h"
#include "agent/workers/worker_command.h"
#include "agent/workers/worker_describer.h"
#include "agent/workers/worker_slots.h"
#include "common/ids.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/reconnecting_stream.h"

namespace pfc {

/// Used on the event loop only. REQUIRES: the loop runs on the thread that constructs this object.
class Agent {
 public:
  /// Receives the reason for the end; empty if it was requested.
  using Ended = std::function<void(const std::string& problem)>;

  /// `ended` is called once, when no worker is left.
  Agent(boost::asio::io_context& loop, AgentOptions options, Ended ended);
  ~Agent();

  /// Ends the workers (SIGTERM, then SIGKILL after `grace`), then the agent.
  void end(const std::string& problem);
  /// Called when the coordinator that started this agent was killed. The workers keep training for
  /// `coordinator_grace`. If that is 0, the workers and the agent end now.
  void coordinator_killed();
  /// Drains the host: asks the coordinator to end the job after a checkpoint, or to continue
  /// without this host. Starts no more workers. The agent ends when the workers have ended, or
  /// after AgentOptions::leave_grace, which is shortened to 2 s if no worker runs. Without a job
  /// and workers it ends immediately. Without a connection it sends SIGTERM to its workers, which
  /// have leave_grace for a checkpoint, and ends. `reason` names the cause: "SIGTERM".
  void leave(const std::string& reason);
  void kill_workers() { workers_.send(SIGKILL); }

 private:
  /// Like end(), with `lost_grace`, because the coordinator is gone.
  void end_without_coordinator(const std::string& problem);
  void end_within(std::chrono::milliseconds grace, const std::string& problem);
  /// Sends SIGTERM, then SIGKILL after `grace`. Starts no worker until the next DesiredSlots.
  void let_workers_end(std::chrono::milliseconds grace);
  using Stream = ReconnectingStream<proto::AgentMessage, proto::AgentCommand>;

  void connect();
  /// Called when there is no connection. Returns whether to retry.
  bool connection_lost(const grpc::Status& status, std::chrono::milliseconds silence);
  void obey(const proto::AgentCommand& command);
  /// Begins another job, and kills the remaining workers of the last one. An empty id means that
  /// the coordinator has no job: then the remaining workers write a checkpoint first.
  void begin_job(const std::string& job_id);
  void send_log(const proto::ReadLog& wanted);
  /// Reports what a worker is doing. The worker first writes its stack, if it can.
  void describe(const proto::DescribeWorker& wanted);
  /// Injects a fault, if faults are allowed, and replies.
  void inject(const proto::Fault& fault);
  /// Starts and ends processes to match `desired_`. Called when the processes or `desired_` change.
  void reconcile();
  [[nodiscard]] WorkerSlots::Handler slot_handler();
  /// Returns the worker's rank in the current generation. `first`: the rank it was started with.
  [[nodiscard]] Rank rank_of(const proto::WorkerOutput& said, Rank first) const;
  void worker_said(proto::AgentMessage said, Rank first);
  /// Ends the agent if no worker is left and either the agent was asked to end, or its host is
  /// drained and the job that ran then is over.
  void end_if_alone();
  [[nodiscard]] proto::AgentMessage message() const;  ///< for the current job
  void tell(proto::AgentMessage event);
  void tell(const proto::NetworkReport& report);  ///< callable on any thread

  GroupGuard guard_;  // first: it forks before any thread exists
  boost::asio::io_context& loop_;
  const AgentOptions options_;
  const Ended ended_;
  const std::string id_;
  const WorkerCommand worker_command_;
  const std::shared_ptr<grpc::Channel> channel_;  // shared by stub_ and stream_
  const std::unique_ptr<proto::CoordinatorService::Stub> stub_;
  boost::asio::steady_timer leave_;
  WorkerDescriber describer_;
  bool connected_ = false;  // a message has arrived since the last failed attempt
  // Milliseconds without a coordinator before the agent gives up. Also used by the stream's thread.
  std::atomic<std::int64_t> limit_;
  std::optional<std::chrono::milliseconds> told_grace_;  // sent by the last coordinator
  bool lost_ = false;  // workers are being ended because the coordinator is gone
  Outbox outbox_;
  std::string job_id_;           // empty: no job
  proto::DesiredSlots desired_;  // slots that should run for this job
  WorkerSlots workers_;
  Faults faults_;
  bool leaving_ = false;                 ///< all workers are being ended; none is started
  std::optional<std::string> left_job_;  ///< the job that ran when the drain began
  bool ending_ = false;
  std::string problem_;
  SilenceNotice notice_;              // used on the stream's thread only
  std::unique_ptr<WorkerLogs> logs_;  // null: logs are not stored
  std::unique_ptr<Stream> stream_;    // its threads use the members above
  // After stream_, because the probe's threads use it.
  NetworkProbe network_{[this](const proto::NetworkReport& report) { tell(report); }};
};

}  // namespace pfc
