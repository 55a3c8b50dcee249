// The agent of one host: it registers the host with the coordinator, keeps those workers running
// that the coordinator wants, and reports their output and their end.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/outbox.h"
#include "agent/worker_process.h"
#include "common/machine/gpus.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/reconnecting_stream.h"

namespace pfc {

struct AgentOptions {
  std::string coordinator;                     ///< host:port
  std::string host;                            ///< this host's name in the coordinator's --hosts
  std::filesystem::path worker_program;        ///< the only program that it starts
  GpuSearch gpus;                              ///< what its workers can compute on
  std::chrono::milliseconds patience{60'000};  ///< it ends after so long without a coordinator
  std::chrono::milliseconds grace{5'000};      ///< from SIGTERM to SIGKILL when it ends
};

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
  void kill_workers() { send_to_workers(SIGKILL); }

 private:
  using Stream = ReconnectingStream<proto::AgentMessage, proto::AgentCommand>;

  using Wanted = proto::DesiredSlots::Slot;
  /// A place for a worker. A process that is not wanted any more stays in it until it has ended.
  struct Slot {
    std::int64_t incarnation = 0;            ///< of the last process that was wanted; 0: none was
    std::shared_ptr<WorkerProcess> process;  ///< null: none runs
    int sent = 0;                            ///< the last signal that it was sent; 0: none
  };

  void connect();
  void obey(const proto::AgentCommand& command);
  /// Another job: what is left of the last one is killed.
  void begin_job(const std::string& job_id);
  /// Makes what runs what is wanted. Called after every change of either.
  void reconcile();
  [[nodiscard]] const Wanted* wish_for(int number, const Slot& slot) const;
  void begin_incarnation(Slot& slot, const Wanted& wanted);
  void start_worker(Slot& slot, const Wanted& wanted);
  [[nodiscard]] SpawnOptions command_line(const Wanted& wanted) const;
  void watch_children();
  void worker_ended(const proto::AgentMessage& about, const ProcessExit& exit,
                    const std::vector<std::string>& last_stderr);
  [[nodiscard]] bool alone() const;
  void send_to_workers(int signal);
  void end_if_alone();
  [[nodiscard]] proto::AgentMessage message() const;  ///< of the current job
  [[nodiscard]] proto::AgentMessage registration() const;
  void tell(proto::AgentMessage event);

  boost::asio::io_context& loop_;
  const AgentOptions options_;
  const Ended ended_;
  const std::string id_;
  const std::shared_ptr<grpc::Channel> channel_;  // shared with stub_ and stream_
  const std::unique_ptr<proto::CoordinatorService::Stub> stub_;
  boost::asio::signal_set children_;
  boost::asio::steady_timer grace_;
  Outbox outbox_;
  std::string job_id_;           // empty: the coordinator has not told it yet
  proto::DesiredSlots desired_;  // of this job
  std::map<int, Slot> slots_;
  bool ending_ = false;
  std::string problem_;
  std::unique_ptr<Stream> stream_;  // last: its threads use what is above
};

}  // namespace pfc
