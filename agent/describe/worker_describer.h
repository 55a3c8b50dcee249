// Tells what a worker does, and lets it write its stack first.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <string>

namespace pfc {

/// Used on the event loop only.
class WorkerDescriber {
 public:
  using Answer = std::function<void(const std::string& text)>;

  explicit WorkerDescriber(boost::asio::io_context& loop) : loop_(loop) {}

  /// Asks the worker to write its stack to stderr (SIGUSR1), where it can. `answer` gets
  /// describe_process() of this moment: after half a second, in which the stack comes as all output
  /// does, or at once where the worker writes none. It is not called once this object is gone.
  void describe(pid_t pid, const Answer& answer);

 private:
  boost::asio::io_context& loop_;
  std::list<boost::asio::steady_timer> stacks_;  ///< of workers that write theirs
};

}  // namespace pfc
