// Marks what a thread does, for a profiler attached to the worker (docs/trace.md).
#pragma once

namespace pfc {

/// Marks the lifetime of this object as `name`, a string literal. In builds with CUDA it is a
/// range of the NVTX domain "pfc", which Nsight Systems shows; it costs a few nanoseconds if no
/// tool is attached. In other builds it does nothing. Ranges of a thread may be nested.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

}  // namespace pfc
