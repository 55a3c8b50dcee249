// The messages that the agent has for the coordinator, kept while there is no connection.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Thread-safe: the event loop fills it, the stream's thread empties it.
///
/// The start and the end of the last process in each slot are kept and sent again after every
/// reconnection. Output is sent once. Until it is taken, the last kMaxOutputBytes of it are kept,
/// which usually show the cause of a failure. A line of output says how much was dropped before it.
/// So a worker never waits for its output to be read.
class Outbox {
 public:
  static constexpr std::size_t kMaxOutputBytes = std::size_t{4} << 20;

  static constexpr std::size_t kMaxLogBytes = std::size_t{4} << 20;

  /// Removes everything that belongs to the job before.
  void begin_job();
  /// Removes the events of the slot's last process.
  void begin_incarnation(int slot);
  void add_event(proto::AgentMessage message);
  void add_output(proto::AgentMessage message);
  /// The answer to a request for a log. Dropped where kMaxLogBytes of them are kept: who has asked
  /// does not wait for ever.
  void add_log(proto::AgentMessage message);
  /// Sent once: whoever needs it again asks for it.
  void add_report(proto::AgentMessage message);

  /// Removes and returns every message that has not been sent. Begins with a line that counts the
  /// dropped lines.
  std::vector<proto::AgentMessage> take();
  /// The starts and ends that are kept.
  [[nodiscard]] std::vector<proto::AgentMessage> events() const;

 private:
  void drop_oldest_output();

  struct Dropped {
    long long lines = 0;
    proto::AgentMessage about;  ///< whose output it was; without lines
  };

  mutable std::mutex mutex_;
  std::deque<proto::AgentMessage> pending_;          // guarded by mutex_
  std::vector<proto::AgentMessage> history_;         // guarded by mutex_
  std::size_t output_bytes_ = 0;                     // guarded by mutex_: of pending_
  std::vector<proto::AgentMessage> logs_;            // guarded by mutex_
  std::size_t log_bytes_ = 0;                        // guarded by mutex_: of logs_
  std::map<std::pair<int, bool>, Dropped> dropped_;  // guarded by mutex_; by slot and is_stderr
};

}  // namespace pfc
