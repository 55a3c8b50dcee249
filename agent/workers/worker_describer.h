// Describes what a worker is doing now, from /proc and from the stack that it writes.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <functional>
#include <list>
#include <string>

namespace pfc {

/// Returns one line: "state T (stopped); main thread in futex (do_signal_stop)". Adds other
/// threads only if they may block the process: "thread 4712 (pfc-data) in read of /data/train.rec
/// (folio_wait_bit), state D (waits for a disk or a device)". Leaves out what cannot be read.
/// Empty if there is no such process. Reads only /proc, opens none of the process's files, and
/// does not stop the process. `proc` is replaced in tests.
std::string describe_process(pid_t pid, const std::filesystem::path& proc = "/proc");

/// Returns whether the process has a handler for this signal and is not stopped. Otherwise the
/// signal would kill it, or not be delivered.
bool handles_signal(pid_t pid, int signal, const std::filesystem::path& proc = "/proc");

/// Lets workers write their stacks, and describes them. Used on the event loop only.
class WorkerDescriber {
 public:
  using Answer = std::function<void(const std::string& text)>;

  explicit WorkerDescriber(boost::asio::io_context& loop) : loop_(loop) {}

  /// Calls describe_process(), then asks the worker to write its stack to stderr (SIGUSR1), if it
  /// handles that signal. Passes the description to `answer` 500 ms later, so that the stack
  /// arrives first; immediately if the worker writes none; never once this object is destroyed.
  void describe(pid_t pid, const Answer& answer);

 private:
  boost::asio::io_context& loop_;
  std::list<boost::asio::steady_timer> stacks_;  ///< one for each worker that is writing its stack
};

}  // namespace pfc
