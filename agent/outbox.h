// Messages to the coordinator, buffered while there is no connection.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Thread-safe: the event loop adds messages, the stream's thread removes them.
///
/// The start and exit of the last process in each slot are kept and sent again after every
/// reconnection. Output is sent once. The last kMaxOutputBytes of unsent output are kept, because
/// they usually show the cause of a failure; a line in the output says how much was dropped. So a
/// worker never blocks on its output.
class Outbox {
 public:
  static constexpr std::size_t kMaxOutputBytes = std::size_t{4} << 20;

  static constexpr std::size_t kMaxLogBytes = std::size_t{4} << 20;

  /// Removes all messages of the previous job.
  void begin_job();
  /// Removes the events of the slot's last process.
  void begin_incarnation(int slot);
  void add_event(proto::AgentMessage message);
  void add_output(proto::AgentMessage message);
  /// Adds a reply to a request for a log. Drops it if kMaxLogBytes are buffered; the requester has
  /// a timeout.
  void add_log(proto::AgentMessage message);
  /// Adds a message that is sent only once. If it is lost, the coordinator repeats its request.
  void add_report(proto::AgentMessage message);

  /// Removes and returns all unsent messages. Lines that count dropped output come first.
  std::vector<proto::AgentMessage> take();
  /// Returns the buffered starts and exits.
  [[nodiscard]] std::vector<proto::AgentMessage> events() const;

 private:
  void drop_oldest_output();

  struct Dropped {
    long long lines = 0;
    proto::AgentMessage about;  ///< metadata of the dropped output; without lines
  };

  mutable std::mutex mutex_;
  std::deque<proto::AgentMessage> pending_;          // guarded by mutex_
  std::vector<proto::AgentMessage> history_;         // guarded by mutex_
  std::size_t output_bytes_ = 0;                     // guarded by mutex_: output in pending_
  std::vector<proto::AgentMessage> logs_;            // guarded by mutex_
  std::size_t log_bytes_ = 0;                        // guarded by mutex_: size of logs_
  std::map<std::pair<int, bool>, Dropped> dropped_;  // guarded by mutex_; by slot and is_stderr
};

}  // namespace pfc
