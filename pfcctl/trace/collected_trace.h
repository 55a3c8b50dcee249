// A trace that is received from the coordinator in parts (docs/trace.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/ids.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Converts the nanoseconds of a trace to seconds.
inline double seconds_from_ns(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }

struct CollectedSpan {
  std::uint32_t track = 0;    ///< index into CollectedRank::tracks
  std::uint32_t name = 0;     ///< index into CollectedTrace::names
  std::int64_t begin_ns = 0;  ///< by the coordinator's clock, since 1970
  std::int64_t end_ns = 0;
  std::int64_t number = 0;  ///< meaning depends on the row: see proto::TraceRow
  std::uint64_t bytes = 0;
};

struct CollectedTrack {
  proto::TraceRow row = proto::TRACE_ROW_THREAD;
  std::string name;

  friend bool operator==(const CollectedTrack&, const CollectedTrack&) = default;
};

struct CollectedRank {
  std::string host;  ///< empty: the coordinator ended before it sent this
  int slot = -1;
  std::string problem;  ///< why the trace of this rank is incomplete; empty: complete
  proto::TraceSummary summary;
  std::vector<CollectedTrack> tracks;
  std::vector<CollectedSpan> spans;

  /// Returns the number of steps that were recorded completely.
  [[nodiscard]] std::int64_t steps() const;
  /// Returns whether phases and collectives only show when the host enqueues work.
  [[nodiscard]] bool on_gpu() const { return summary.device().starts_with("cuda"); }
};

struct CollectedTrace {
  std::string job_id;
  std::int64_t first_step = 0;  ///< first requested step
  std::int64_t last_step = 0;
  std::vector<std::string> names;
  std::map<Rank, CollectedRank> ranks;

  [[nodiscard]] std::size_t spans() const;
  [[nodiscard]] bool complete() const;
};

/// Returns "rank 3 (host-b, slot 1)", or "rank 3" without a host.
std::string rank_title(Rank rank, const CollectedRank& collected);

/// Joins the parts that the workers sent. Parts are not trusted: an unreadable part is dropped and
/// reported as its rank's problem.
class TraceCollector {
 public:
  explicit TraceCollector(const proto::StartTraceReply& begun);

  void add(const proto::TraceChunk& part);
  /// Adds the coordinator's final report on a rank.
  void add(const proto::RankTrace& rank);
  /// Ends early: `why` becomes the problem of every rank without a final report.
  void end_early(const std::string& why);
  [[nodiscard]] const CollectedTrace& trace() const { return trace_; }

 private:
  std::uint32_t name_of(const std::string& name);

  CollectedTrace trace_;
  std::map<std::string, std::uint32_t> names_;
  std::map<Rank, bool> told_;  ///< ranks with a final report
  int workers_ = 0;
};

}  // namespace pfc
