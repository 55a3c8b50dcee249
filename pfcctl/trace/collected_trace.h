// A trace as it comes from the coordinator, part by part (docs/trace.md).
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
  std::int64_t number = 0;  ///< what proto::TraceRow says
  std::uint64_t bytes = 0;
};

struct CollectedTrack {
  proto::TraceRow row = proto::TRACE_ROW_THREAD;
  std::string name;

  friend bool operator==(const CollectedTrack&, const CollectedTrack&) = default;
};

struct CollectedRank {
  std::string host;  ///< empty: the coordinator has ended before it said this
  int slot = -1;
  std::string problem;  ///< why not all of it is here; empty: all is
  proto::TraceSummary summary;
  std::vector<CollectedTrack> tracks;
  std::vector<CollectedSpan> spans;

  /// Steps that were recorded from begin to end.
  [[nodiscard]] std::int64_t steps() const;
  /// Whether its phases and collectives are only what the host enqueues.
  [[nodiscard]] bool on_gpu() const { return summary.device().starts_with("cuda"); }
};

struct CollectedTrace {
  std::string job_id;
  std::int64_t first_step = 0;  ///< that was asked for
  std::int64_t last_step = 0;
  std::vector<std::string> names;
  std::map<Rank, CollectedRank> ranks;

  [[nodiscard]] std::size_t spans() const;
  [[nodiscard]] bool complete() const;
};

/// "rank 3 (host-b, slot 1)"; without a host "rank 3".
std::string rank_title(Rank rank, const CollectedRank& collected);

/// Puts together what the workers have sent. What a part says of itself is not believed: one that
/// cannot be read is left out, and named as its rank's problem.
class TraceCollector {
 public:
  explicit TraceCollector(const proto::StartTraceReply& begun);

  void add(const proto::TraceChunk& part);
  /// What the coordinator says of each rank at the end.
  void add(const proto::RankTrace& rank);
  /// The end has not come: `why` is the problem of every rank of which nothing was said.
  void end_early(const std::string& why);
  [[nodiscard]] const CollectedTrace& trace() const { return trace_; }

 private:
  std::uint32_t name_of(const std::string& name);

  CollectedTrace trace_;
  std::map<std::string, std::uint32_t> names_;
  std::map<Rank, bool> told_;  ///< by the coordinator at the end
  int workers_ = 0;
};

}  // namespace pfc
