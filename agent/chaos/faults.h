// Injects faults on the agent's host for pfcctl chaos.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/chaos/partition.h"
#include "agent/workers/worker_process.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Upper limit of a fault's duration.
inline constexpr std::chrono::minutes kLongestFault{60};

/// Used on the event loop only. A lasting fault ends after its time, and when this object is
/// destroyed. If this process is killed, its workers die with it, and a child process ends the
/// partition.
class Faults {
 public:
  using FindWorker =
      std::function<std::shared_ptr<WorkerProcess>(int slot, std::int64_t incarnation)>;
  /// Receives why the fault is not injected; empty if it is.
  using Answer = std::function<void(const std::string& problem)>;

  struct Options {
    bool allowed = false;
    FindWorker worker;          ///< returns null if there is no such worker
    std::function<void()> die;  ///< kills this process with SIGKILL
  };

  Faults(boost::asio::io_context& loop, Options options);
  ~Faults();

  /// Checks whether the fault is possible, calls `answer` once, and then injects the fault, unless
  /// it has only_ask. A fault that would prevent the reply from being sent is delayed by a moment.
  void begin(const proto::Fault& fault, const Answer& answer);

 private:
  /// Returns why the fault cannot be injected; empty if it can.
  [[nodiscard]] std::string obstacle(const proto::Fault& fault) const;
  [[nodiscard]] static std::string try_to_cut(const proto::Fault& fault);
  void act(const proto::Fault& fault);
  void stop_worker(const std::shared_ptr<WorkerProcess>& worker, std::chrono::milliseconds lasts);
  void cut_off(const proto::Fault& fault);
  void undo();
  /// Calls `then` after `delay`, unless undo() is called first.
  void after(std::chrono::milliseconds delay, std::function<void()> then);

  boost::asio::io_context& loop_;
  const Options options_;
  /// The stopped workers, by number. The worker's slot owns the process.
  std::map<std::int64_t, std::weak_ptr<WorkerProcess>> stopped_;
  std::optional<Partition> partition_;
  bool will_cut_ = false;                                     ///< a partition is scheduled
  std::int64_t last_ = 0;                                     ///< last key of stopped_ or timers_
  std::map<std::int64_t, boost::asio::steady_timer> timers_;  ///< timers of after(), by number
};

}  // namespace pfc
