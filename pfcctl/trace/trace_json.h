// Writes a trace in Chrome's Trace Event Format, for ui.perfetto.dev and chrome://tracing.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "pfcctl/trace/collected_trace.h"
#include "pfcctl/trace/trace_analysis.h"

namespace pfc {

inline constexpr double kArrowSeconds = 0.001;
inline constexpr int kMostArrows = 20'000;
/// Writes one JSON object in pieces. Each rank is a process; each of its rows is a thread. Times
/// are microseconds since the earliest span, by the coordinator's clock. An arrow connects the
/// worker that came last into a collective with each worker that waited for it for at least
/// kArrowSeconds. At most kMostArrows are written.
void write_trace_json(const CollectedTrace& trace,
                      const std::vector<MatchedCollective>& collectives,
                      const std::function<void(std::string_view)>& write);

}  // namespace pfc
