#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "common/counted.h"
#include "pfcctl/trace/trace_analysis.h"

namespace pfc {
namespace {

constexpr std::size_t kMostPhases = 12;
constexpr std::size_t kMostKernels = 10;
constexpr std::size_t kMostProblems = 16;
// Shorter waits, as a part of a step, are not reported.
constexpr double kWorthTelling = 0.02;
constexpr double kInputHolds = 0.05;

std::string ms(double seconds) { return fmt::format("{:.1f} ms", 1e3 * seconds); }

std::string title_of_rank(const CollectedTrace& trace, Rank rank) {
  return rank_title(rank, trace.ranks.at(rank));
}

std::string table_of_collectives(const CollectedTrace& trace, const TraceAnalysis& analysis) {
  if (analysis.collectives.empty()) return {};
  std::string text = fmt::format("\n{:<14} {:<15} {:>6} {:>10} {:>10}  {}\n", "communicator",
                                 "collective", "calls", "time", "wait", "waited longest for");
  for (const CollectiveWaits& each : analysis.collectives) {
    const std::string last =
        each.last ? fmt::format("{}, last in {} of {}", title_of_rank(trace, *each.last),
                                each.last_count, each.count)
                  : "unknown (clocks too inaccurate)";
    text += fmt::format("{:<14} {:<15} {:>6} {:>10} {:>10}  {}\n", each.communicator, each.kind,
                        each.count, ms(each.seconds), ms(each.wait_seconds), last);
  }
  return text + "\n";
}

/// Returns whether training waits for this communicator. Threads that work ahead use the others.
bool holds_training(const std::string& communicator) {
  return communicator == "step" || communicator == "gradients" || communicator == "host";
}

std::string sentences_on_waits(const CollectedTrace& trace, const TraceAnalysis& analysis) {
  std::string text;
  for (const CollectiveWaits& each : analysis.collectives) {
    if (!each.last || analysis.steps == 0 || !holds_training(each.communicator)) continue;
    const double a_step = each.waited_for_last_seconds / static_cast<double>(analysis.steps);
    if (a_step < kWorthTelling * analysis.step_seconds) continue;
    text += fmt::format(
        "{} entered {} of {} of the communicator \"{}\" last; the others waited {} per step for "
        "it.\n",
        title_of_rank(trace, *each.last), each.last_count, counted(each.count, each.kind),
        each.communicator, ms(a_step));
  }
  return text;
}

std::string comparison(const CollectedTrace& trace, const TraceAnalysis& analysis) {
  if (!analysis.slowest || !analysis.fastest) return {};
  std::string text =
      fmt::format("Slowest: {}, own work {} per step; fastest: {}, {}.\n\n{:<18} {:>12} {:>12}\n",
                  title_of_rank(trace, *analysis.slowest), ms(analysis.slowest_own_seconds),
                  title_of_rank(trace, *analysis.fastest), ms(analysis.fastest_own_seconds),
                  "phase, per step", "slowest", "fastest");
  const std::size_t shown = std::min(kMostPhases, analysis.phases.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const PhaseShare& each = analysis.phases[i];
    text += fmt::format("{:<18} {:>12} {:>12}\n", each.phase, ms(each.slowest_seconds),
                        ms(each.fastest_seconds));
  }
  return text + "\n";
}

std::string sentence_on_input(const CollectedTrace& trace, const TraceAnalysis& analysis) {
  if (!analysis.hungriest) return {};
  const bool holds = analysis.input_share >= kInputHolds;
  return fmt::format(
      "The input {} training down: {} waited for its own data for {:.1f} % of the "
      "time{}.\n",
      holds ? "slowed" : "did not slow", title_of_rank(trace, *analysis.hungriest),
      100 * analysis.input_share, holds ? "" : ", the others for less");
}

std::string share_of(const CollectedTrace& trace, const GpuBusy& gpu) {
  return fmt::format("{:.1f} % ({})", 100 * gpu.share, title_of_rank(trace, gpu.rank));
}

std::string sentence_on_gpus(const CollectedTrace& trace, const TraceAnalysis& analysis) {
  constexpr double kSame = 0.01;
  const auto [least, most] = std::ranges::minmax_element(analysis.gpus, {}, &GpuBusy::share);
  if (analysis.gpus.size() == 1 || most->share - least->share < kSame) {
    return fmt::format("GPUs busy for {:.1f} % of a step.\n", 100 * least->share);
  }
  return fmt::format("GPUs busy for {} to {} of a step.\n", share_of(trace, *least),
                     share_of(trace, *most));
}

std::string table_of_kernels(const CollectedTrace& trace, const TraceAnalysis& analysis) {
  if (analysis.gpus.empty()) return {};
  std::string text =
      fmt::format("\n{:<60} {:>8} {:>12}\n", "GPU kernels, per step", "calls", "time");
  const std::size_t shown = std::min(kMostKernels, analysis.kernels.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const GpuKernel& each = analysis.kernels[i];
    text += fmt::format("{:<60} {:>8.1f} {:>12}\n", each.name, each.calls, ms(each.seconds));
  }
  return text + sentence_on_gpus(trace, analysis);
}

std::string problems(const CollectedTrace& trace) {
  std::string text;
  std::size_t told = 0, more = 0;
  const auto tell = [&](const std::string& line) {
    if (++told <= kMostProblems) {
      text += line + "\n";
    } else {
      ++more;
    }
  };
  for (const auto& [rank, each] : trace.ranks) {
    const std::string who = rank_title(rank, each);
    if (!each.problem.empty()) tell(who + ": incomplete: " + each.problem);
    if (each.summary.dropped() > 0) {
      tell(who + ": " + counted(static_cast<long long>(each.summary.dropped()), "event") +
           " dropped, because there were more than a worker may send");
    }
    for (const std::string& note : each.summary.notes()) tell(who + ": " + note);
  }
  if (more > 0) text += "and " + counted(static_cast<long long>(more), "line") + " of this kind\n";
  return text;
}

}  // namespace

std::string to_text(const CollectedTrace& trace, const TraceAnalysis& analysis) {
  std::string text = fmt::format("{} of {}, {}", counted(analysis.steps, "step"),
                                 counted(static_cast<long long>(trace.ranks.size()), "rank"),
                                 counted(static_cast<long long>(trace.spans()), "event"));
  if (trace.spans() > 0) {
    text += fmt::format("; the workers' clocks agree to within {:.2f} ms",
                        1e3 * analysis.clock_error_seconds);
  }
  text += '\n';
  text += problems(trace);
  text += table_of_collectives(trace, analysis);
  text += sentences_on_waits(trace, analysis);
  text += comparison(trace, analysis);
  text += sentence_on_input(trace, analysis);
  return text + table_of_kernels(trace, analysis);
}

}  // namespace pfc
