// What an agent breaks on purpose on its host when pfcctl chaos asks for it.
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

/// Longer than anybody wants to wait for what was broken.
inline constexpr std::chrono::minutes kLongestFault{60};

/// Used on the event loop only. What lasts ends by itself when its time is over, and when this
/// object ends. Where the process is killed its workers end with it, and a partition is mended by a
/// process of its own.
class Faults {
 public:
  using FindWorker =
      std::function<std::shared_ptr<WorkerProcess>(int slot, std::int64_t incarnation)>;
  /// Takes why the fault is not done; empty: it is.
  using Answer = std::function<void(const std::string& problem)>;

  struct Options {
    bool allowed = false;
    FindWorker worker;          ///< null where there is none
    std::function<void()> die;  ///< ends this process by SIGKILL
  };

  Faults(boost::asio::io_context& loop, Options options);
  ~Faults();

  /// `answer` is called once, before this returns. What would keep the answer from being sent is
  /// done a moment later.
  void begin(const proto::Fault& fault, const Answer& answer);

 private:
  /// Why it cannot be done; empty: it can.
  [[nodiscard]] std::string obstacle(const proto::Fault& fault) const;
  [[nodiscard]] static std::string try_to_cut(const proto::Fault& fault);
  void act(const proto::Fault& fault);
  void stop_worker(const std::shared_ptr<WorkerProcess>& worker, std::chrono::milliseconds lasts);
  void cut_off(const proto::Fault& fault);
  void undo();
  /// Unless it is undone before.
  void after(std::chrono::milliseconds delay, std::function<void()> then);

  boost::asio::io_context& loop_;
  const Options options_;
  /// By number. Its slot owns the process.
  std::map<std::int64_t, std::weak_ptr<WorkerProcess>> stopped_;
  std::optional<Partition> partition_;
  bool will_cut_ = false;                                     ///< in a moment
  std::int64_t last_ = 0;                                     ///< number that was given
  std::map<std::int64_t, boost::asio::steady_timer> timers_;  ///< likewise: of after()
};

}  // namespace pfc
