// What a worker sends of a trace, and what it is told to record (docs/trace.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/trace/clock_map.h"
#include "common/trace/recorder.h"

namespace pfc {

/// A trace that is wanted of this worker (docs/trace.md).
struct TraceOrder {
  std::int64_t id = 0;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::int64_t most_spans = 0;  ///< of this worker
};

/// A part of what was recorded, and with the last one what is to be said of all of them.
struct TracePart {
  std::int64_t trace = 0;  ///< TraceOrder::id
  std::span<const TraceTrackInfo> tracks;
  std::span<const TraceSpan> spans;  ///< at most kMostSpansOfPart
  const ClockMap* clock = nullptr;   ///< of their times. REQUIRES: not null where there are spans
  struct Summary {
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    std::uint64_t dropped = 0;       ///< spans that were not recorded or not sent
    std::string device;              ///< "cpu", "cuda:0"
    std::vector<std::string> notes;  ///< what the trace does not have, and why
  };
  const Summary* last = nullptr;  ///< null: others follow
};
/// A part is a message of less than 200 KiB.
inline constexpr std::size_t kMostSpansOfPart = 4'096;

}  // namespace pfc
