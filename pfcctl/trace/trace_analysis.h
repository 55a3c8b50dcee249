// Who waited for whom, and where the slowest worker's time went, from a trace (docs/trace.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pfcctl/trace/collected_trace.h"

namespace pfc {

/// One collective as all workers that take part in it have recorded it.
struct MatchedCollective {
  struct Part {
    Rank rank = 0;
    const CollectedSpan* span = nullptr;
    std::uint32_t track = 0;
  };
  std::string communicator;  ///< "gradients"
  std::uint32_t name = 0;    ///< index into CollectedTrace::names: "all_reduce"
  std::int64_t number = 0;
  std::vector<Part> parts;  ///< by rank
  std::size_t last = 0;     ///< the part that began last
  /// Whether it began so much later than the first that the clocks are sure of it.
  bool sure = false;

  /// How long this part waited for the last one.
  [[nodiscard]] double waited_seconds(const Part& part) const;
  /// The same of all others than the last one, in the mean.
  [[nodiscard]] double mean_wait_seconds() const;
};

/// Those that all workers of their communicator have recorded, by communicator and number. What a
/// GPU's host has only enqueued is left out: it says nothing about waiting. Borrows the trace.
std::vector<MatchedCollective> match_collectives(const CollectedTrace& trace);

/// Of the collectives of one kind on one communicator.
struct CollectiveWaits {
  std::string communicator;
  std::string kind;
  int count = 0;            ///< that all workers have recorded
  double seconds = 0;       ///< that one takes, median over all of them and all workers
  double wait_seconds = 0;  ///< that a worker other than the last waits in one, median
  /// The worker for which the others waited longest in total. Only calls count in which the clocks
  /// prove that it came last. Counting calls would name the wrong worker: a stall makes one call
  /// very late, and chance decides who is last in the short calls that follow.
  std::optional<Rank> last;
  int last_count = 0;                  ///< calls into which it came last
  double waited_for_last_seconds = 0;  ///< by one other worker, in these calls
};

struct PhaseShare {
  std::string phase;
  double slowest_seconds = 0;  ///< of a step of the slowest worker
  double fastest_seconds = 0;
};

/// Of the steps of which a worker has sent all kernels.
struct GpuKernel {
  std::string name;    ///< of a kernel, or "copy host to device"
  double calls = 0;    ///< a step, in the mean of all workers and steps
  double seconds = 0;  ///< likewise
};
struct GpuBusy {
  Rank rank = 0;
  double share = 0;  ///< of the steps' time, in which at least one stream ran something
};

struct TraceAnalysis {
  std::int64_t steps = 0;   ///< that every worker has recorded
  double step_seconds = 0;  ///< of a step, with what is done between two of them
  double clock_error_seconds =
      0;  ///< by which the times of two workers may be wrong, one by the other
  std::vector<CollectiveWaits> collectives;  ///< the longest waits first
  /// By the time of a step that is not spent on waiting for others; none where fewer than two
  /// workers have recorded a step.
  std::optional<Rank> slowest;
  std::optional<Rank> fastest;
  double slowest_own_seconds = 0;
  double fastest_own_seconds = 0;
  std::vector<PhaseShare> phases;  ///< the longest of the slowest worker first
  /// The worker that waited longest for its own data, and which part of its time.
  std::optional<Rank> hungriest;
  double input_share = 0;
  std::vector<GpuKernel> kernels;  ///< the longest first
  std::vector<GpuBusy> gpus;       ///< by rank, of those that have sent kernels
};

/// Pure.
TraceAnalysis analyse(const CollectedTrace& trace,
                      const std::vector<MatchedCollective>& collectives);

/// Fills `kernels` and `gpus`. Pure.
void add_gpus(TraceAnalysis& analysis, const CollectedTrace& trace);
/// Whether the row shows a stream of a GPU.
bool is_gpu(const CollectedTrack& track);

/// For a person: a table, and a few sentences.
std::string to_text(const CollectedTrace& trace, const TraceAnalysis& analysis);

}  // namespace pfc
