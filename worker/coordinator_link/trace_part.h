// Parts of a trace that a worker sends, and the order to record one (docs/trace.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/trace/clock_map.h"
#include "common/trace/recorder.h"

namespace pfc {

/// Request for a trace of this worker (docs/trace.md).
struct TraceOrder {
  std::int64_t id = 0;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::int64_t most_spans = 0;  ///< limit for this worker
};

/// A part of a recording. The last one includes a summary of all parts.
struct TracePart {
  std::int64_t trace = 0;  ///< TraceOrder::id
  std::span<const TraceTrackInfo> tracks;
  std::span<const TraceSpan> spans;  ///< at most kMostSpansOfPart
  const ClockMap* clock = nullptr;   ///< maps the spans' times. REQUIRES: set if there are spans
  struct Summary {
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    std::uint64_t dropped = 0;       ///< spans that were not recorded or not sent
    std::string device;              ///< "cpu", "cuda:0"
    std::vector<std::string> notes;  ///< says what is missing in the trace, and why
  };
  const Summary* last = nullptr;  ///< nullptr if more parts follow
};
/// Keeps the message of a part below 200 KiB.
inline constexpr std::size_t kMostSpansOfPart = 4'096;

}  // namespace pfc
