// What the agent has to tell the coordinator, whether the connection is up or not.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

#include "common/ids.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Thread-safe: the event loop fills it, the stream's thread empties it.
///
/// Starts and ends of workers are kept for their generation and told again after every
/// reconnection. Output is told once; while the coordinator is away only so much of it is kept, and
/// what was dropped is counted: a worker never waits for its output to be read.
class Outbox {
 public:
  static constexpr std::size_t kMaxOutputBytes = std::size_t{4} << 20;

  /// Forgets what belongs to earlier generations.
  void begin_generation(Generation generation);
  void add_event(proto::AgentMessage message);
  void add_output(proto::AgentMessage message);

  /// Everything there is to tell now.
  std::vector<proto::AgentMessage> take();
  /// Every start and end of this generation.
  [[nodiscard]] std::vector<proto::AgentMessage> events() const;

 private:
  mutable std::mutex mutex_;
  std::deque<proto::AgentMessage> pending_;   // guarded by mutex_
  std::vector<proto::AgentMessage> history_;  // guarded by mutex_
  std::size_t output_bytes_ = 0;              // guarded by mutex_: of pending_
  std::size_t dropped_lines_ = 0;             // guarded by mutex_
};

}  // namespace pfc
