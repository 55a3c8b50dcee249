#include "common/trace/gpu/gpu_rows.h"

#include <cxxabi.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>

namespace pfc {
namespace {

using std::chrono::nanoseconds;

/// Returns when the host began each recorded step. The last entry is the end of the last step.
std::map<TimePoint, std::int64_t> begins_of_steps(const TraceRecording& recording) {
  std::map<std::int64_t, TimePoint> begins;
  TimePoint end{};
  for (const TraceSpan& span : recording.spans) {
    if (recording.tracks[span.track].row != TraceRow::kPhases) continue;
    if (span.number < recording.first_step || span.number > recording.last_step) continue;
    const auto [found, is_new] = begins.try_emplace(span.number, span.begin);
    found->second = std::min(found->second, span.begin);
    end = std::max(end, span.end);
  }
  std::map<TimePoint, std::int64_t> steps;
  for (const auto& [step, begin] : begins) steps[begin] = step;
  if (!steps.empty()) steps[end] = 0;
  return steps;
}

/// Returns 0 before the first step and after the last.
std::int64_t step_at(const std::map<TimePoint, std::int64_t>& begins, TimePoint time) {
  const auto next = begins.upper_bound(time);
  return next == begins.begin() ? 0 : std::prev(next)->second;
}

std::string without_anonymous(std::string name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (auto at = name.find(kAnonymous); at != std::string::npos; at = name.find(kAnonymous)) {
    name.erase(at, kAnonymous.size());
  }
  return name;
}

/// Returns the name up to its parameters, without text in <> and {}.
std::string without_arguments(std::string_view name) {
  std::string kept;
  int depth = 0;
  for (const char letter : name) {
    const bool opens = letter == '<' || letter == '{';
    const bool closes = letter == '>' || letter == '}';
    if (letter == '(' && depth == 0) break;
    if (opens) ++depth;
    if (depth == 0) kept += letter;
    if (closes && depth > 0) --depth;
  }
  const auto type = kept.find_last_of(' ');  // a template instance starts with its return type
  return type == std::string::npos ? kept : kept.substr(type + 1);
}

std::uint32_t track_of_stream(TraceRecording& recording, std::uint32_t stream) {
  const std::string name = kGpuRow + std::to_string(stream);
  const auto found = std::ranges::find(recording.tracks, name, &TraceTrackInfo::name);
  const auto place = static_cast<std::uint32_t>(found - recording.tracks.begin());
  if (found == recording.tracks.end()) recording.tracks.push_back({TraceRow::kThread, name});
  return place;
}

/// Truncates to whole steps. REQUIRES: the spans are sorted, and there are more than `most`.
void keep_whole_steps(GpuSpans& all, std::size_t most) {
  const std::int64_t cut = all.spans[most].number;
  std::size_t kept = most;
  while (kept > 0 && all.spans[kept - 1].number == cut) --kept;
  if (kept == 0) {  // not one step fits: keep spans for display; step 0 excludes them from sums
    kept = most;
    for (TraceSpan& span : all.spans) span.number = 0;
  }
  all.dropped += all.spans.size() - kept;
  all.spans.resize(kept);
}

}  // namespace

std::string kernel_name(const char* mangled) {
  if (mangled == nullptr || *mangled == '\0') return "kernel";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  std::string name =
      status == 0 && text ? without_arguments(without_anonymous(text.get())) : mangled;
  if (name.empty()) name = mangled;
  if (name.size() > kLongestKernelName) name = name.substr(0, kLongestKernelName - 3) + "...";
  return name;
}

TimePoint time_of_gpu(const GpuActivity& activity, std::uint64_t there_ns) {
  const auto there_at = [](const ClockOffset& clock) {
    return std::chrono::duration_cast<nanoseconds>(clock.at.time_since_epoch()) + clock.offset;
  };
  const auto there = nanoseconds(static_cast<std::int64_t>(there_ns));
  const auto whole =
      static_cast<double>((there_at(activity.after) - there_at(activity.before)).count());
  const auto part = static_cast<double>((there - there_at(activity.before)).count());
  const double share = whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0.0;
  const auto moved = static_cast<double>((activity.after.offset - activity.before.offset).count());
  const nanoseconds offset = activity.before.offset + nanoseconds(std::llround(share * moved));
  return TimePoint(std::chrono::duration_cast<TimePoint::duration>(there - offset));
}

GpuSpans spans_of_gpu(const GpuActivity& activity, TraceRecording& recording, std::size_t most) {
  GpuSpans all{.spans = {}, .dropped = activity.dropped, .note = {}};
  const auto begins = begins_of_steps(recording);
  std::optional<TimePoint> complete_until;
  if (activity.complete_until_ns) {
    complete_until = time_of_gpu(activity, *activity.complete_until_ns);
  }
  for (const GpuRecord& record : activity.records) {
    const TimePoint begin = time_of_gpu(activity, record.begin_ns);
    std::int64_t step = step_at(begins, begin);
    if (step == 0) continue;  // its step is not recorded
    const auto next = begins.upper_bound(begin);
    const bool late = complete_until && next->first > *complete_until;
    if (late || std::prev(next)->first < activity.before.at) step = 0;
    all.spans.push_back({record.name, track_of_stream(recording, record.stream), begin,
                         time_of_gpu(activity, record.end_ns), step, record.bytes});
  }
  std::ranges::sort(all.spans, {}, &TraceSpan::begin);
  if (all.spans.size() > most) keep_whole_steps(all, most);
  if (all.dropped > 0) {
    all.note = "the trace lacks some of the GPU's kernels: " + std::to_string(all.dropped) +
               " did not fit; record fewer steps";
  }
  return all;
}

}  // namespace pfc
