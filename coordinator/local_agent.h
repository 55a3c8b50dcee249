// The agent that the coordinator starts for its own machine.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "common/machine/child_process.h"

namespace pfc {

/// On the event loop only, which must run on the thread that makes it: the kernel ends the agent
/// together with that thread.
class LocalAgent {
 public:
  using Ended = std::function<void(const ProcessExit&)>;

  /// Starts the pfc-agent beside this program. Throws InputError when that cannot be done. `ended`
  /// is called when it has gone, expected or not.
  LocalAgent(boost::asio::io_context& loop, const std::string& coordinator, const std::string& host,
             Ended ended);
  /// After the coordinator has told it to end: gives it a moment, then kills it.
  ~LocalAgent();

 private:
  void watch();

  ChildProcess process_;
  boost::asio::steady_timer timer_;
  const Ended ended_;
};

}  // namespace pfc
