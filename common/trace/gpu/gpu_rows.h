// What a GPU has done, as rows of a trace.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/trace/clock_map.h"
#include "common/trace/recorder.h"

namespace pfc {

/// The rows of a GPU's streams are TraceRow::kThread and have this before the stream's number.
inline constexpr const char* kGpuRow = "gpu stream ";

/// A kernel, a copy or a memset as CUPTI tells it.
struct GpuRecord {
  const char* name = "";       ///< of GpuActivity::names, or a literal
  std::uint64_t begin_ns = 0;  ///< by CUPTI's clock
  std::uint64_t end_ns = 0;
  std::uint64_t bytes = 0;  ///< of a copy or a memset
  std::uint32_t stream = 0;
};

/// What was recorded of a GPU. Owns the names, so it outlives the spans that are made of it.
struct GpuActivity {
  std::vector<GpuRecord> records;
  std::set<std::string, std::less<>> names;
  std::uint64_t dropped = 0;  ///< kernels, copies and memsets that were lost
  /// The earliest begin of those for which there was no room here; empty: there was for all.
  std::optional<std::uint64_t> complete_until_ns;
  /// From this machine's clock to CUPTI's, before and after the recording.
  ClockOffset before, after;
  std::string problem;  ///< why there are none; empty: they are here
};

/// "pfc::softmax" of "_ZN3pfc7softmaxIfEEvPKfi": without template arguments, parameters and
/// anonymous namespaces; at most kLongestKernelName bytes. A name that is not mangled stays as it
/// is.
inline constexpr std::size_t kLongestKernelName = 60;
std::string kernel_name(const char* mangled);

/// The time here at which CUPTI's clock stood at `there_ns`.
TimePoint time_of_gpu(const GpuActivity& activity, std::uint64_t there_ns);

struct GpuSpans {
  std::vector<TraceSpan> spans;  ///< in the order of their begins
  std::uint64_t dropped = 0;
  std::string note;  ///< what is not here, and why; empty: all is
};

/// The spans of the recorded steps, at most `most`; adds rows to `recording.tracks`. A span's
/// number is the step in which the host was when it began; 0 where not all of that step's are here,
/// such as those of a step that had begun before `activity.before` was measured. Steps are kept
/// whole as long as one fits. Borrows the names of `activity`.
GpuSpans spans_of_gpu(const GpuActivity& activity, TraceRecording& recording, std::size_t most);

}  // namespace pfc
