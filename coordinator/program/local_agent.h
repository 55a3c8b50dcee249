// The pfc-agent that the coordinator starts on its own machine.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "common/process/child_process.h"
#include "coordinator/takeover/foreign_process.h"

namespace pfc {

struct LocalAgentOptions {
  std::string coordinator;  ///< host:port
  std::string host;         ///< this machine's name in --hosts
  std::string id;           ///< passed in kAgentIdVariable
  /// Makes a credential for each process, as text for its stdin. Null: plaintext.
  std::function<std::string()> credential = {};
  bool allow_chaos = false;   ///< pfcctl chaos may inject faults on this host
  bool starts_again = false;  ///< restart it after a pause when it ends
  /// How long the agent waits for another coordinator if this one is killed.
  std::chrono::milliseconds coordinator_grace{0};
};

/// Used on the event loop only. REQUIRES: the loop runs on the thread that constructs this object,
/// because Linux sends kParentDeathSignal to the agent when that thread ends.
class LocalAgent {
 public:
  struct Handler {
    std::function<void(pid_t)> started;
    /// Called with the exit status when the agent has ended; empty, because unknown, if another
    /// coordinator started the agent. Returns true to restart it even without `starts_again`.
    std::function<bool(const std::optional<ProcessExit>&)> ended;
  };

  /// Starts the pfc-agent in this program's folder, or watches `living`, which a killed
  /// coordinator started. Throws as ChildProcess does.
  LocalAgent(boost::asio::io_context& loop, LocalAgentOptions options, Handler handler,
             std::optional<ForeignProcess> living = {});
  /// Waits a few seconds for the agent to end, then kills it. REQUIRES: the coordinator has sent
  /// the agent a shutdown.
  ~LocalAgent();

 private:
  void start();
  void watch();
  void start_again();
  [[nodiscard]] bool has_ended();

  const LocalAgentOptions options_;
  std::optional<ForeignProcess> living_;  ///< empty: not taken over, or ended
  std::optional<ChildProcess> process_;   ///< empty: ended
  boost::asio::steady_timer timer_;
  const Handler handler_;
  std::chrono::milliseconds pause_;  ///< before the next restart
};

}  // namespace pfc
