// What a thread does, for a profiler that is attached to the worker (docs/trace.md).
#pragma once

namespace pfc {

/// From here to its end this thread does `name`, a string literal. In builds with CUDA it is a
/// range of the NVTX domain "pfc", which Nsight Systems shows; a few nanoseconds where no tool is
/// attached. Elsewhere nothing. Ranges of a thread may lie within each other.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

}  // namespace pfc
