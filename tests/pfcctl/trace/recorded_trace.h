// Builds a trace of simulated workers from the messages that real workers send.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "common/trace/clock_map.h"
#include "pfcctl/trace/collected_trace.h"
#include "pfcctl/trace/trace_analysis.h"
#include "worker/coordinator_link/trace_message.h"

namespace pfc::testing {

/// Times are milliseconds since the trace began, by the coordinator's clock. Each worker records
/// them with its own clock and a measured clock offset.
class RecordedTrace {
 public:
  struct Clocks {
    std::chrono::nanoseconds ahead{0};  ///< offset of the worker's clock
    std::chrono::nanoseconds error{0};  ///< error of the measured offset, reported with it
  };

  explicit RecordedTrace(int workers, std::map<Rank, Clocks> clocks = {})
      : clocks_(std::move(clocks)), recorded_(static_cast<std::size_t>(workers)) {
    for (auto& each : recorded_) {
      each.tracks = {{TraceRow::kPhases, "training"},       {TraceRow::kCollectives, "step"},
                     {TraceRow::kCollectives, "gradients"}, {TraceRow::kThread, "inputs"},
                     {TraceRow::kLoader, "loader 0"},       {TraceRow::kThread, "gpu stream 7"},
                     {TraceRow::kThread, "gpu stream 13"}};
    }
  }

  enum Row : std::uint32_t { kTraining, kStep, kGradients, kInputs, kLoader, kGpu, kOtherStream };

  RecordedTrace& span(Rank rank, Row row, const char* name, double begin_ms, double end_ms,
                      std::int64_t number = 1, std::uint64_t bytes = 0) {
    of(rank).spans.push_back({name, row, here(rank, begin_ms), here(rank, end_ms), number, bytes});
    return *this;
  }

  RecordedTrace& device(Rank rank, const std::string& name) {
    of(rank).summary.device = name;
    return *this;
  }
  RecordedTrace& dropped(Rank rank, std::uint64_t spans) {
    of(rank).summary.dropped = spans;
    return *this;
  }
  /// Marks a worker that died before it sent anything.
  RecordedTrace& lost(Rank rank, const std::string& why) {
    of(rank).problem = why;
    return *this;
  }

  [[nodiscard]] CollectedTrace collected(std::int64_t first_step = 10,
                                         std::int64_t last_step = 10) const {
    proto::StartTraceReply begun;
    begun.set_job_id("0123456789abcdef");
    begun.set_first_step(first_step);
    begun.set_last_step(last_step);
    begun.set_workers(static_cast<int>(recorded_.size()));
    TraceCollector collector(begun);
    for (Rank rank = 0; rank < static_cast<Rank>(recorded_.size()); ++rank) {
      const Recorded& each = recorded_[static_cast<std::size_t>(rank)];
      proto::RankTrace told;
      told.set_rank(rank);
      told.set_host("host-b");
      told.set_slot(rank);
      told.set_problem(each.problem);
      if (each.problem.empty()) {
        const ClockMap clock = clock_of(rank);
        TracePart::Summary summary = each.summary;
        summary.first_step = first_step;
        summary.last_step = last_step;
        const auto sent = to_proto(TracePart{
            .tracks = each.tracks, .spans = each.spans, .clock = &clock, .last = &summary});
        proto::TraceChunk part;
        part.set_rank(rank);
        part.set_spans(sent.spans());
        collector.add(part);
        *told.mutable_summary() = sent.last();
      }
      collector.add(told);
    }
    return collector.trace();
  }

 private:
  struct Recorded {
    std::vector<TraceTrackInfo> tracks;
    std::vector<TraceSpan> spans;
    TracePart::Summary summary{.device = "cpu"};
    std::string problem;
  };
  static constexpr std::chrono::seconds kBegin{1'700'000'000};  // by the coordinator's clock

  Recorded& of(Rank rank) { return recorded_.at(static_cast<std::size_t>(rank)); }
  [[nodiscard]] Clocks clocks_of(Rank rank) const {
    const auto found = clocks_.find(rank);
    return found == clocks_.end() ? Clocks() : found->second;
  }
  [[nodiscard]] TimePoint here(Rank rank, double ms) const {
    const std::chrono::nanoseconds since(static_cast<std::int64_t>(ms * 1e6));
    return TimePoint(kBegin + since + clocks_of(rank).ahead);
  }
  /// Measures the offset like a worker: the request took twice the error, the reply no time.
  [[nodiscard]] ClockMap clock_of(Rank rank) const {
    const Clocks clocks = clocks_of(rank);
    const TimePoint asked = here(rank, 0);
    const ClockReading reading{
        .asked = asked,
        .answered = asked + 2 * clocks.error,
        .there =
            WallTime(std::chrono::duration_cast<WallTime::duration>(kBegin + 2 * clocks.error))};
    const std::vector<ClockReading> readings{reading};
    const ClockOffset offset = best_offset(readings);
    return {offset, offset};
  }

  std::map<Rank, Clocks> clocks_;
  std::vector<Recorded> recorded_;
};

/// Analyses a trace, including its collectives.
inline TraceAnalysis analysis_of(const CollectedTrace& trace) {
  return analyse(trace, match_collectives(trace));
}

}  // namespace pfc::testing
