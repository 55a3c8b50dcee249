// The pfc-agent that the coordinator starts on its own machine.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "common/machine/child_process.h"

namespace pfc {

/// Used on the event loop only. REQUIRES: the loop runs on the thread that makes this object,
/// because Linux sends the agent SIGTERM when that thread ends.
class LocalAgent {
 public:
  using Ended = std::function<void(const ProcessExit&)>;

  /// Starts the pfc-agent in this program's folder. Throws as ChildProcess does.
  /// `ended` is called once, when the agent has ended for whatever reason.
  LocalAgent(boost::asio::io_context& loop, const std::string& coordinator, const std::string& host,
             Ended ended);
  /// Waits a few seconds for the agent to end, then kills it. REQUIRES: the coordinator has told it
  /// to end.
  ~LocalAgent();

 private:
  void watch();

  ChildProcess process_;
  boost::asio::steady_timer timer_;
  const Ended ended_;
};

}  // namespace pfc
