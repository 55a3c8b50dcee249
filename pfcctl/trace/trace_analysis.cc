#include "pfcctl/trace/trace_analysis.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/median.h"

namespace pfc {
namespace {

/// Returns whether a communicator is NCCL's: the host only enqueues its collectives.
bool only_enqueued(const CollectedRank& rank, const std::string& communicator) {
  return rank.on_gpu() && (communicator == "step" || communicator == "gradients");
}

/// Time of one worker's training thread, in seconds.
struct RankTimes {
  std::map<std::string, double> phases;  ///< sum over all steps
  double all = 0;                        ///< sum over all phases
  double waited = 0;                     ///< waiting for other workers
  double own_data_wait = 0;
};

/// Returns the seconds covered by both lists. Each is sorted and free of overlaps.
double overlap(const std::vector<const CollectedSpan*>& a,
               const std::vector<const CollectedSpan*>& b) {
  double sum = 0;
  auto other = b.begin();
  for (const CollectedSpan* span : a) {
    while (other != b.end() && (*other)->end_ns <= span->begin_ns) ++other;
    for (auto each = other; each != b.end() && (*each)->begin_ns < span->end_ns; ++each) {
      sum += seconds_from_ns(std::min(span->end_ns, (*each)->end_ns) -
                             std::max(span->begin_ns, (*each)->begin_ns));
    }
  }
  return sum;
}

void sort_by_begin(std::vector<const CollectedSpan*>& spans) {
  std::ranges::sort(spans, {}, [](const CollectedSpan* span) { return span->begin_ns; });
}

RankTimes times_of(const CollectedTrace& trace, const CollectedRank& rank) {
  RankTimes times;
  std::vector<const CollectedSpan*> waits, own_waits;
  for (const CollectedSpan& span : rank.spans) {
    const std::string& name = trace.names[span.name];
    const proto::TraceRow row = rank.tracks[span.track].row;
    if (row == proto::TRACE_ROW_THREAD && name == "wait_for_batch") own_waits.push_back(&span);
    if (row != proto::TRACE_ROW_PHASES) continue;
    const double took = seconds_from_ns(span.end_ns - span.begin_ns);
    times.phases[name] += took;
    times.all += took;
    if (name == "data_wait") waits.push_back(&span);
    if (name == "gradient_wait") times.waited += took;
  }
  sort_by_begin(waits);
  sort_by_begin(own_waits);
  times.own_data_wait = overlap(waits, own_waits);
  times.waited += times.phases["data_wait"] - times.own_data_wait;
  return times;
}

using Kind = std::pair<std::string, std::uint32_t>;  // communicator and name

CollectiveWaits waits_of(const CollectedTrace& trace, const Kind& kind,
                         const std::vector<const MatchedCollective*>& all) {
  CollectiveWaits waits{.communicator = kind.first,
                        .kind = trace.names[kind.second],
                        .count = static_cast<int>(all.size())};
  std::vector<double> took, waited;
  std::map<Rank, std::pair<int, double>> last;  // number of calls, sum of the mean waits
  for (const MatchedCollective* each : all) {
    for (const auto& part : each->parts) {
      took.push_back(seconds_from_ns(part.span->end_ns - part.span->begin_ns));
    }
    waited.push_back(each->mean_wait_seconds());
    if (!each->sure) continue;
    auto& [count, sum] = last[each->parts[each->last].rank];
    ++count;
    sum += waited.back();
  }
  waits.seconds = median_of(std::move(took));
  waits.wait_seconds = median_of(std::move(waited));
  for (const auto& [rank, told] : last) {
    if (told.second <= waits.waited_for_last_seconds) continue;
    waits.last = rank;
    std::tie(waits.last_count, waits.waited_for_last_seconds) = told;
  }
  return waits;
}

void add_phases(TraceAnalysis& analysis, const CollectedTrace& trace,
                std::map<Rank, RankTimes>& times) {
  const auto per_step = [&](Rank rank, const std::string& phase) {
    return times.at(rank).phases[phase] / static_cast<double>(trace.ranks.at(rank).steps());
  };
  std::set<std::string> names;
  for (const Rank rank : {*analysis.slowest, *analysis.fastest}) {
    for (const auto& [phase, took] : times.at(rank).phases) names.insert(phase);
  }
  for (const std::string& phase : names) {
    analysis.phases.push_back(
        {phase, per_step(*analysis.slowest, phase), per_step(*analysis.fastest, phase)});
  }
  std::ranges::sort(analysis.phases, std::greater(), &PhaseShare::slowest_seconds);
}

void compare_ranks(TraceAnalysis& analysis, const CollectedTrace& trace,
                   std::map<Rank, RankTimes>& times) {
  for (const auto& [rank, each] : times) {
    const auto steps = static_cast<double>(trace.ranks.at(rank).steps());
    const double own = std::max(each.all - each.waited, 0.0) / steps;
    if (!analysis.slowest || own > analysis.slowest_own_seconds) {
      analysis.slowest = rank;
      analysis.slowest_own_seconds = own;
    }
    if (!analysis.fastest || own < analysis.fastest_own_seconds) {
      analysis.fastest = rank;
      analysis.fastest_own_seconds = own;
    }
    const double hunger = each.all > 0 ? each.own_data_wait / each.all : 0;
    if (!analysis.hungriest || hunger > analysis.input_share) {
      analysis.hungriest = rank;
      analysis.input_share = hunger;
    }
    analysis.step_seconds = std::max(analysis.step_seconds, each.all / steps);
  }
}

}  // namespace

double MatchedCollective::waited_seconds(const Part& part) const {
  const std::int64_t until = std::min(parts[last].span->begin_ns, part.span->end_ns);
  return seconds_from_ns(std::max<std::int64_t>(until - part.span->begin_ns, 0));
}

double MatchedCollective::mean_wait_seconds() const {
  double sum = 0;
  for (const Part& part : parts) sum += waited_seconds(part);
  return sum / static_cast<double>(parts.size() - 1);
}

std::vector<MatchedCollective> match_collectives(const CollectedTrace& trace) {
  std::map<std::string, std::size_t> members;  // number of workers per communicator
  std::map<std::pair<std::string, std::int64_t>, MatchedCollective> found;
  for (const auto& [rank, collected] : trace.ranks) {
    std::set<std::string> seen;
    for (const CollectedSpan& span : collected.spans) {
      const CollectedTrack& track = collected.tracks[span.track];
      if (track.row != proto::TRACE_ROW_COLLECTIVES || only_enqueued(collected, track.name)) {
        continue;
      }
      if (seen.insert(track.name).second) ++members[track.name];
      MatchedCollective& all = found[{track.name, span.number}];
      if (all.parts.empty()) {
        all.communicator = track.name;
        all.name = span.name;
        all.number = span.number;
      }
      const bool twice = !all.parts.empty() && all.parts.back().rank == rank;
      if (all.name == span.name && !twice) all.parts.push_back({rank, &span, span.track});
    }
  }
  std::vector<MatchedCollective> matched;
  for (auto& [key, each] : found) {
    if (each.parts.size() < 2 || each.parts.size() != members[key.first]) continue;
    const auto begin = [&](std::size_t i) { return each.parts[i].span->begin_ns; };
    std::size_t first = 0;
    for (std::size_t i = 1; i < each.parts.size(); ++i) {
      if (begin(i) < begin(first)) first = i;
      if (begin(i) > begin(each.last)) each.last = i;
    }
    const auto error = [&](std::size_t i) {
      return trace.ranks.at(each.parts[i].rank).summary.clock_error_ns();
    };
    each.sure = begin(each.last) - begin(first) > error(first) + error(each.last);
    matched.push_back(std::move(each));
  }
  return matched;
}

TraceAnalysis analyse(const CollectedTrace& trace,
                      const std::vector<MatchedCollective>& collectives) {
  TraceAnalysis analysis;
  std::map<Rank, RankTimes> times;
  for (const auto& [rank, collected] : trace.ranks) {
    const std::int64_t steps = collected.steps();
    if (steps == 0) continue;
    times[rank] = times_of(trace, collected);
    analysis.steps = analysis.steps == 0 ? steps : std::min(analysis.steps, steps);
    analysis.clock_error_seconds = std::max(
        analysis.clock_error_seconds, 2 * seconds_from_ns(collected.summary.clock_error_ns()));
  }
  std::map<Kind, std::vector<const MatchedCollective*>> kinds;
  for (const MatchedCollective& each : collectives) {
    kinds[{each.communicator, each.name}].push_back(&each);
    if (each.communicator != "step") continue;  // only "step" runs in the training thread
    for (const auto& part : each.parts) {
      if (times.contains(part.rank)) times[part.rank].waited += each.waited_seconds(part);
    }
  }
  for (const auto& [kind, all] : kinds) analysis.collectives.push_back(waits_of(trace, kind, all));
  std::ranges::sort(analysis.collectives, std::greater(),
                    [](const CollectiveWaits& waits) { return waits.wait_seconds * waits.count; });
  compare_ranks(analysis, trace, times);
  add_gpus(analysis, trace);
  if (times.size() < 2) {
    analysis.slowest.reset();
    analysis.fastest.reset();
  } else {
    add_phases(analysis, trace, times);
  }
  return analysis;
}

}  // namespace pfc
