// The pfc-agent that the coordinator starts on its own machine.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "common/machine/child_process.h"

namespace pfc {

struct LocalAgentOptions {
  std::string coordinator;      ///< host:port
  std::string host;             ///< this machine's name in --hosts
  std::string id;               ///< kAgentIdVariable
  std::string credential = {};  ///< to_text() of it, for its stdin; empty: plaintext
  bool starts_again = false;    ///< when it has ended, after a pause
};

/// Used on the event loop only. REQUIRES: the loop runs on the thread that makes this object,
/// because Linux sends the agent kParentDeathSignal when that thread ends.
class LocalAgent {
 public:
  using Ended = std::function<void(const ProcessExit&)>;

  /// Starts the pfc-agent in this program's folder. Throws as ChildProcess does.
  /// `ended` is called whenever the agent has ended for whatever reason.
  LocalAgent(boost::asio::io_context& loop, LocalAgentOptions options, Ended ended);
  /// Waits a few seconds for the agent to end, then kills it. REQUIRES: the coordinator has told it
  /// to end.
  ~LocalAgent();

 private:
  void start();
  void watch();
  void start_again();

  const LocalAgentOptions options_;
  std::optional<ChildProcess> process_;  ///< empty: it has ended
  boost::asio::steady_timer timer_;
  const Ended ended_;
  std::chrono::milliseconds pause_;  ///< before it is started again
};

}  // namespace pfc
