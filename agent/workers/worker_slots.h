// The worker slots of a host, and the processes in them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/workers/group_guard.h"
#include "agent/workers/worker_process.h"
#include "common/ids.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Starts and ends processes as requested, and reports events as messages of
/// proto/coordinator.proto. Used on the event loop only. REQUIRES: the loop runs on the thread
/// that constructs this object.
class WorkerSlots {
 public:
  using Wanted = proto::DesiredSlots::Slot;

  struct Handler {
    std::function<SpawnOptions(const Wanted&)> command;  ///< returns how to start this worker
    std::function<void(int slot)> begins;                ///< a new process is wanted in the slot
    std::function<void(const Wanted&)> runs;             ///< the process is running
    std::function<void(proto::AgentMessage)> event;      ///< a process was started or has ended
    /// Lines of output. `rank` is the rank that the worker was started with.
    std::function<void(proto::AgentMessage, Rank rank)> output;
    std::function<void()> ended;  ///< a process has ended and its slot is free
  };

  /// Does not own the guard, which registers every process.
  WorkerSlots(boost::asio::io_context& loop, GroupGuard& guard, Handler handler);
  /// Kills the running processes and disables the handlers.
  ~WorkerSlots();

  /// Begins a job. Running processes belong to the last job and are no longer wanted.
  void begin_job(const std::string& job_id);
  /// Ends processes that are no longer wanted, and starts wanted ones. Starts none while a process
  /// of the last job runs, or if `may_start` is false.
  void reconcile(const proto::DesiredSlots& desired, bool may_start);
  /// Sends SIGTERM to processes that have received no signal yet, then SIGKILL after `grace`.
  /// `lost`: the reason is that the coordinator is gone.
  void end_all(std::chrono::milliseconds grace, bool lost);
  void send(int signal);  ///< to all processes

  [[nodiscard]] bool empty() const;  ///< no process is running
  /// Returns the process with this number in the slot; null if it is not running.
  [[nodiscard]] std::shared_ptr<WorkerProcess> process_of(int slot, std::int64_t incarnation) const;
  /// Disables the handlers.
  void abandon();

 private:
  /// A slot. A process that is no longer wanted stays in it until it has ended.
  struct Slot {
    std::int64_t incarnation = 0;            ///< number of the last wanted process; 0: none
    std::shared_ptr<WorkerProcess> process;  ///< null: not running
    int sent = 0;                            ///< last signal sent; 0: none
    bool lost = false;                       ///< `sent` was sent because the coordinator is gone
  };

  [[nodiscard]] bool has_workers_of_last_job() const;
  void begin_incarnation(Slot& slot, const Wanted& wanted);
  void start(Slot& slot, const Wanted& wanted);
  void watch_children();
  void worker_ended(const proto::AgentMessage& about, const ProcessExit& exit,
                    const std::vector<std::string>& last_stderr);
  [[nodiscard]] proto::AgentMessage message() const;  ///< for the current job

  boost::asio::io_context& loop_;
  GroupGuard& guard_;
  const Handler handler_;
  boost::asio::signal_set children_;
  boost::asio::steady_timer grace_;
  std::string job_id_;
  std::map<int, Slot> slots_;
};

}  // namespace pfc
