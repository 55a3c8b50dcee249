// The places of a host for workers, and the processes in them.
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

/// Makes what runs what is wanted, and reports what becomes of it in the words of
/// proto/coordinator.proto. Used on the event loop only. REQUIRES: the loop runs on the thread that
/// makes this object.
class WorkerSlots {
 public:
  using Wanted = proto::DesiredSlots::Slot;

  struct Handler {
    std::function<SpawnOptions(const Wanted&)> command;  ///< how this worker is started
    std::function<void(int slot)> begins;                ///< another process begins in the slot
    std::function<void(const Wanted&)> runs;             ///< its process runs
    std::function<void(proto::AgentMessage)> event;      ///< it was started, or has ended
    /// It has written lines. `rank`: that it was started with.
    std::function<void(proto::AgentMessage, Rank rank)> output;
    std::function<void()> ended;  ///< a process has ended: its slot is free
  };

  /// Borrows the guard, which is told of every process.
  WorkerSlots(boost::asio::io_context& loop, GroupGuard& guard, Handler handler);
  /// Kills what runs, and calls no handler any more.
  ~WorkerSlots();

  /// What runs is of the last job from now on, and nobody wants it.
  void begin_job(const std::string& job_id);
  /// Ends what is not wanted any more, and starts what is wanted and was not started yet. Starts
  /// nothing while a process of the last job runs, nor where it `may_start` none.
  void reconcile(const proto::DesiredSlots& desired, bool may_start);
  /// SIGTERM to all that were sent no signal yet, and after `grace` SIGKILL. `lost`: because no
  /// coordinator was there.
  void end_all(std::chrono::milliseconds grace, bool lost);
  void send(int signal);  ///< to all

  [[nodiscard]] bool empty() const;  ///< no process runs
  /// Null where that process does not run.
  [[nodiscard]] std::shared_ptr<WorkerProcess> process_of(int slot, std::int64_t incarnation) const;
  /// Calls no handler from now on.
  void abandon();

 private:
  /// A place for a worker. A process that is not wanted any more stays in it until it has ended.
  struct Slot {
    std::int64_t incarnation = 0;            ///< of the last process that was wanted; 0: none was
    std::shared_ptr<WorkerProcess> process;  ///< null: none runs
    int sent = 0;                            ///< the last signal that it was sent; 0: none
    bool lost = false;                       ///< that was because no coordinator was there
  };

  [[nodiscard]] bool has_workers_of_last_job() const;
  void begin_incarnation(Slot& slot, const Wanted& wanted);
  void start(Slot& slot, const Wanted& wanted);
  void watch_children();
  void worker_ended(const proto::AgentMessage& about, const ProcessExit& exit,
                    const std::vector<std::string>& last_stderr);
  [[nodiscard]] proto::AgentMessage message() const;  ///< of the current job

  boost::asio::io_context& loop_;
  GroupGuard& guard_;
  const Handler handler_;
  boost::asio::signal_set children_;
  boost::asio::steady_timer grace_;
  std::string job_id_;
  std::map<int, Slot> slots_;
};

}  // namespace pfc
