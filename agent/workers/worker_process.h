// A running worker: its process, its output in lines, and the last lines of its stderr.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/workers/line_splitter.h"
#include "common/process/child_process.h"

namespace pfc {

/// Used on the event loop only. REQUIRES: the loop runs on the constructing thread, because Linux
/// kills the worker when that thread ends. Shared by its owner and the pending reads.
class WorkerProcess : public std::enable_shared_from_this<WorkerProcess> {
 public:
  struct Handler {
    std::function<void(bool is_stderr, std::vector<std::string> lines)> output;
    /// Called once, when the process has ended and `output` has received everything.
    std::function<void(const ProcessExit&, const std::vector<std::string>& last_stderr)> ended;
  };

  /// Starts the process. Throws InputError on failure.
  static std::shared_ptr<WorkerProcess> start(boost::asio::io_context& loop,
                                              const SpawnOptions& options, Handler handler);

  [[nodiscard]] pid_t pid() const { return process_.pid(); }
  void send(int signal) { process_.send(signal); }
  /// Checks whether the process has ended. REQUIRES: called after every SIGCHLD.
  void look();
  /// Disables the handlers. The process is killed when this object is destroyed.
  void abandon();

 private:
  struct Stream {
    boost::asio::posix::stream_descriptor pipe;
    bool is_stderr = false;
    bool open = true;
    LineSplitter splitter;
    std::array<char, 16'384> buffer;
  };

  WorkerProcess(boost::asio::io_context& loop, const SpawnOptions& options, Handler handler);
  void read(Stream& stream);
  void give(const Stream& stream, std::vector<std::string> lines);
  void end_if_done(bool whatever_is_open);

  ChildProcess process_;
  Handler handler_;
  Stream out_;
  Stream err_;
  boost::asio::steady_timer drain_;
  std::deque<std::string> last_stderr_;
  std::optional<ProcessExit> exit_;
};

}  // namespace pfc
