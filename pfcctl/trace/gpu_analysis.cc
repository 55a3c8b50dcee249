#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/trace/gpu/gpu_rows.h"
#include "pfcctl/trace/trace_analysis.h"

namespace pfc {
namespace {

using Interval = std::pair<std::int64_t, std::int64_t>;  // begin and end

/// Returns the interval of each step: from the start of its first phase to the end of its last.
std::map<std::int64_t, Interval> steps_of(const CollectedRank& rank) {
  std::map<std::int64_t, Interval> steps;
  for (const CollectedSpan& span : rank.spans) {
    if (rank.tracks[span.track].row != proto::TRACE_ROW_PHASES) continue;
    auto& [begin, end] = steps.try_emplace(span.number, span.begin_ns, span.end_ns).first->second;
    begin = std::min(begin, span.begin_ns);
    end = std::max(end, span.end_ns);
  }
  return steps;
}

/// Returns the seconds of `window` that are covered by at least one interval. Intervals are sorted
/// by begin.
double covered(const std::vector<Interval>& sorted, const Interval& window) {
  std::int64_t sum = 0, until = window.first;
  for (const auto& [begin, end] : sorted) {
    const std::int64_t from = std::max(begin, until);
    const std::int64_t to = std::min(end, window.second);
    if (to <= from) continue;
    sum += to - from;
    until = to;
  }
  return seconds_from_ns(sum);
}

struct Kernels {
  double calls = 0;
  double seconds = 0;
};

}  // namespace

bool is_gpu(const CollectedTrack& track) {
  return track.row == proto::TRACE_ROW_THREAD && track.name.starts_with(kGpuRow);
}

void add_gpus(TraceAnalysis& analysis, const CollectedTrace& trace) {
  std::map<std::uint32_t, Kernels> kernels;  // key: index of the name
  double all_steps = 0;
  for (const auto& [rank, each] : trace.ranks) {
    std::vector<Interval> busy;
    std::set<std::int64_t> complete;
    for (const CollectedSpan& span : each.spans) {
      if (!is_gpu(each.tracks[span.track])) continue;
      busy.emplace_back(span.begin_ns, span.end_ns);
      if (span.number <= 0) continue;
      complete.insert(span.number);
      Kernels& sum = kernels[span.name];
      ++sum.calls;
      sum.seconds += seconds_from_ns(span.end_ns - span.begin_ns);
    }
    std::ranges::sort(busy);
    double took = 0, ran = 0;
    for (const auto& [step, window] : steps_of(each)) {
      if (!complete.contains(step)) continue;
      took += seconds_from_ns(window.second - window.first);
      ran += covered(busy, window);
    }
    if (took > 0) analysis.gpus.push_back({rank, ran / took});
    all_steps += static_cast<double>(complete.size());
  }
  for (const auto& [name, sum] : kernels) {
    analysis.kernels.push_back({trace.names[name], sum.calls / all_steps, sum.seconds / all_steps});
  }
  std::ranges::sort(analysis.kernels, std::greater(), &GpuKernel::seconds);
}

}  // namespace pfc
