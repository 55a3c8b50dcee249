// Finds in a trace who waited for whom and what the slowest worker did (docs/trace.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pfcctl/trace/collected_trace.h"

namespace pfc {

/// One collective, as recorded by all participating workers.
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
  std::size_t last = 0;     ///< index of the part that began last
  /// Set if the difference between first and last begin exceeds the error of the clocks.
  bool sure = false;

  /// Returns how long `part` waited for the part that began last.
  [[nodiscard]] double waited_seconds(const Part& part) const;
  /// Returns the mean of waited_seconds() over all parts but the last.
  [[nodiscard]] double mean_wait_seconds() const;
};

/// Returns the collectives that all workers of their communicator recorded, by communicator and
/// number. Omits those that a GPU's host only enqueued. The result points into `trace`.
std::vector<MatchedCollective> match_collectives(const CollectedTrace& trace);

/// Statistics of one kind of collective on one communicator.
struct CollectiveWaits {
  std::string communicator;
  std::string kind;
  int count = 0;            ///< calls that all workers recorded
  double seconds = 0;       ///< duration, median over all calls and workers
  double wait_seconds = 0;  ///< wait of a worker other than the last, median over calls
  /// The worker for which the others waited longest in total, over the calls in which the clocks
  /// prove that it came last. The number of such calls would name the wrong worker: a stall makes
  /// one call very late, and chance decides who is last in the short calls that follow.
  std::optional<Rank> last;
  int last_count = 0;                  ///< calls in which it came last
  double waited_for_last_seconds = 0;  ///< mean wait of the other workers, sum over these calls
};

struct PhaseShare {
  std::string phase;
  double slowest_seconds = 0;  ///< time per step of the slowest worker
  double fastest_seconds = 0;
};

/// Statistics of the steps for which a worker sent all kernels.
struct GpuKernel {
  std::string name;    ///< kernel, or "copy host to device"
  double calls = 0;    ///< per step, mean over workers and steps
  double seconds = 0;  ///< per step, same mean
};
struct GpuBusy {
  Rank rank = 0;
  double share = 0;  ///< part of the steps' time in which at least one stream was busy
};

struct TraceAnalysis {
  std::int64_t steps = 0;          ///< number of steps recorded by every worker
  double step_seconds = 0;         ///< time per step of the slowest worker, with work between steps
  double clock_error_seconds = 0;  ///< largest error between the clocks of two workers
  std::vector<CollectiveWaits> collectives;  ///< longest waits first
  /// Workers with the most and the least own work per step, without waits for others. Empty if
  /// fewer than two workers recorded a step.
  std::optional<Rank> slowest;
  std::optional<Rank> fastest;
  double slowest_own_seconds = 0;
  double fastest_own_seconds = 0;
  std::vector<PhaseShare> phases;  ///< longest phase of the slowest worker first
  /// The worker that waited longest for its own data, and the share of its time.
  std::optional<Rank> hungriest;
  double input_share = 0;
  std::vector<GpuKernel> kernels;  ///< longest first
  std::vector<GpuBusy> gpus;       ///< by rank; only workers that sent kernels
};

/// Pure.
TraceAnalysis analyse(const CollectedTrace& trace,
                      const std::vector<MatchedCollective>& collectives);

/// Fills `kernels` and `gpus`. Pure.
void add_gpus(TraceAnalysis& analysis, const CollectedTrace& trace);
/// Returns whether the row shows a stream of a GPU.
bool is_gpu(const CollectedTrack& track);

/// Returns a table and a few sentences for the terminal.
std::string to_text(const CollectedTrace& trace, const TraceAnalysis& analysis);

}  // namespace pfc
