// Log of events of hosts and workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/ids.h"
#include "common/log.h"

namespace pfc {

struct ClusterEvent {
  enum class Kind {
    kHost,
    kFailure,
    kGeneration,
    kCheckpoint,
    kJob,
    kTakeover,
    kStraggler,
    kRequest
  };
  std::int64_t number = 0;  ///< sequence number, from 1
  std::int64_t ms = 0;      ///< since 1970, the coordinator's clock
  Kind kind = Kind::kJob;
  Severity severity = Severity::kNote;
  std::optional<Rank> rank;  ///< rank named in the text; empty: none or several
  std::string text;          ///< one line
};

/// Returns "host", "failure", "generation" and so on.
const char* name_of(ClusterEvent::Kind kind);

/// Keeps the last kMost events, but only kMostCheckpoints checkpoints, because they are frequent.
class EventLog {
 public:
  static constexpr std::size_t kMost = 200;
  static constexpr std::size_t kMostCheckpoints = 20;
  static constexpr std::size_t kLongestText = 400;  ///< bytes

  /// Sets the number, and makes the text one line.
  void add(ClusterEvent event);

  /// The kept events, oldest first.
  [[nodiscard]] const std::deque<ClusterEvent>& events() const { return events_; }
  /// The number of the newest event; 0 if there is none.
  [[nodiscard]] std::int64_t newest() const { return newest_; }

 private:
  std::deque<ClusterEvent> events_;
  std::int64_t newest_ = 0;
};

}  // namespace pfc
