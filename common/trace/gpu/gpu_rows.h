// Converts recorded GPU activity to rows of a trace.
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

/// Name of a GPU stream's row, before the stream's number. The row is a TraceRow::kThread.
inline constexpr const char* kGpuRow = "gpu stream ";

/// A kernel, copy or memset as reported by CUPTI.
struct GpuRecord {
  const char* name = "";       ///< owned by GpuActivity::names, or a literal
  std::uint64_t begin_ns = 0;  ///< on CUPTI's clock
  std::uint64_t end_ns = 0;
  std::uint64_t bytes = 0;  ///< size of a copy or memset
  std::uint32_t stream = 0;
};

/// Recorded activity of a GPU. Owns the names, so it must outlive the spans made from it.
struct GpuActivity {
  std::vector<GpuRecord> records;
  std::set<std::string, std::less<>> names;
  std::uint64_t dropped = 0;  ///< number of lost kernels, copies and memsets
  /// Earliest start of the records that were dropped for lack of room; empty if none was.
  std::optional<std::uint64_t> complete_until_ns;
  /// Offset from this machine's clock to CUPTI's, before and after the recording.
  ClockOffset before, after;
  std::string problem;  ///< why there are no records; empty on success
};

inline constexpr std::size_t kLongestKernelName = 60;
/// Returns "pfc::softmax" for "_ZN3pfc7softmaxIfEEvPKfi": without template arguments, parameters
/// and anonymous namespaces; at most kLongestKernelName bytes. Keeps other names.
std::string kernel_name(const char* mangled);

/// Returns the local time that corresponds to `there_ns` on CUPTI's clock.
TimePoint time_of_gpu(const GpuActivity& activity, std::uint64_t there_ns);

struct GpuSpans {
  std::vector<TraceSpan> spans;  ///< sorted by start
  std::uint64_t dropped = 0;
  std::string note;  ///< what is missing, and why; empty if complete
};

/// Returns the spans of the recorded steps, at most `most`, and adds rows to `recording.tracks`. A
/// span's number is the step that the host was in when the span began. It is 0 if spans of that
/// step are missing, for example if the step began before `activity.before` was measured.
/// Truncates at a step boundary if at least one step fits. Borrows the names of `activity`.
GpuSpans spans_of_gpu(const GpuActivity& activity, TraceRecording& recording, std::size_t most);

}  // namespace pfc
