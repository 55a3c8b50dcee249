// The pfc-agent that the coordinator starts on its own machine.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "common/machine/child_process.h"
#include "coordinator/launch/foreign_process.h"

namespace pfc {

struct LocalAgentOptions {
  std::string coordinator;  ///< host:port
  std::string host;         ///< this machine's name in --hosts
  std::string id;           ///< kAgentIdVariable
  /// Makes one for each process: to_text() of it, for its stdin. Null: plaintext.
  std::function<std::string()> credential = {};
  bool allow_chaos = false;   ///< pfcctl chaos may break things on this host
  bool starts_again = false;  ///< when it has ended, after a pause
  /// How long it waits for another coordinator when this one is killed.
  std::chrono::milliseconds coordinator_grace{0};
};

/// Used on the event loop only. REQUIRES: the loop runs on the thread that makes this object,
/// because Linux sends the agent kParentDeathSignal when that thread ends.
class LocalAgent {
 public:
  struct Handler {
    std::function<void(pid_t)> started;
    /// Whenever it has ended for whatever reason; empty: another coordinator has started it, so
    /// that nobody knows how. Returns whether it is to be started again in any case.
    std::function<bool(const std::optional<ProcessExit>&)> ended;
  };

  /// Starts the pfc-agent in this program's folder, or watches `living`, which a coordinator that
  /// was killed has started. Throws as ChildProcess does.
  LocalAgent(boost::asio::io_context& loop, LocalAgentOptions options, Handler handler,
             std::optional<ForeignProcess> living = {});
  /// Waits a few seconds for the agent to end, then kills it. REQUIRES: the coordinator has told it
  /// to end.
  ~LocalAgent();

 private:
  void start();
  void watch();
  void start_again();
  [[nodiscard]] bool has_ended();

  const LocalAgentOptions options_;
  std::optional<ForeignProcess> living_;  ///< empty: it was not taken over, or has ended
  std::optional<ChildProcess> process_;   ///< empty: it has ended
  boost::asio::steady_timer timer_;
  const Handler handler_;
  std::chrono::milliseconds pause_;  ///< before it is started again
};

}  // namespace pfc
