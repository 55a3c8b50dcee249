// Describes what a worker is doing, after letting it write its stack.
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

  /// Asks the worker to write its stack to stderr (SIGUSR1), if it handles that signal. Calls
  /// `answer` with describe_process() as of now: after 500 ms, so that the stack arrives first, or
  /// immediately if there is none. Never calls it after this object's end.
  void describe(pid_t pid, const Answer& answer);

 private:
  boost::asio::io_context& loop_;
  std::list<boost::asio::steady_timer> stacks_;  ///< one for each worker that is writing its stack
};

}  // namespace pfc
