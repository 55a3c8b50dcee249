#include "worker/coordinator_link/trace_message.h"

#include <chrono>
#include <map>

#include "common/error.h"

namespace pfc {
namespace {

// The enums have the same values.
static_assert(proto::TRACE_ROW_PHASES == static_cast<int>(TraceRow::kPhases));
static_assert(proto::TRACE_ROW_COLLECTIVES == static_cast<int>(TraceRow::kCollectives));
static_assert(proto::TRACE_ROW_THREAD == static_cast<int>(TraceRow::kThread));
static_assert(proto::TRACE_ROW_LOADER == static_cast<int>(TraceRow::kLoader));

/// Lists each name once. Equal names at different addresses are listed separately.
proto::TraceSpans spans_of(const TracePart& part) {
  proto::TraceSpans all;
  for (const TraceTrackInfo& info : part.tracks) {
    proto::TraceTrack* const added = all.add_tracks();
    added->set_row(static_cast<proto::TraceRow>(info.row));
    added->set_name(info.name);
  }
  std::map<const char*, std::uint32_t> names;
  std::int64_t base = 0;
  for (const TraceSpan& span : part.spans) {
    const auto [name, is_new] =
        names.try_emplace(span.name, static_cast<std::uint32_t>(all.names_size()));
    if (is_new) all.add_names(span.name);
    const std::int64_t begin = part.clock->there(span.begin);
    if (all.spans().empty()) {
      base = begin;
      all.set_base_ns(base);
    }
    proto::TraceSpan* const added = all.add_spans();
    added->set_track(span.track);
    added->set_name(name->second);
    added->set_begin_ns(begin - base);
    added->set_duration_ns(part.clock->there(span.end) - begin);
    added->set_number(span.number);
    added->set_bytes(span.bytes);
  }
  return all;
}

proto::TraceSummary proto_summary(const TracePart::Summary& summary, const ClockMap* clock) {
  proto::TraceSummary message;
  message.set_first_step(summary.first_step);
  message.set_last_step(summary.last_step);
  message.set_dropped(summary.dropped);
  message.set_device(summary.device);
  for (const std::string& note : summary.notes) message.add_notes(note);
  if (clock == nullptr) return message;
  // Offset of this machine's time of day from the coordinator's clock.
  const TimePoint here = Clock::now();
  const std::int64_t wall = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count();
  message.set_clock_ahead_ns(wall - clock->there(here));
  message.set_clock_error_ns(clock->error().count());
  return message;
}

}  // namespace

proto::SendTraceRequest to_proto(const TracePart& part) {
  check(part.spans.empty() || part.clock != nullptr, "trace part: spans need a clock");
  check(part.spans.size() <= kMostSpansOfPart, "trace part: too many spans");
  proto::SendTraceRequest request;
  request.set_trace(part.trace);
  if (!part.spans.empty()) request.set_spans(spans_of(part).SerializeAsString());
  if (part.last != nullptr) *request.mutable_last() = proto_summary(*part.last, part.clock);
  return request;
}

}  // namespace pfc
