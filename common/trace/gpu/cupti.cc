#include "common/trace/gpu/cupti.h"

#if __has_include(<cupti.h>)
#include <cupti.h>
#endif

namespace pfc {
namespace {

#if __has_include(<cupti.h>)
static_assert(offsetof(Cupti::Kernel, start) == offsetof(CUpti_ActivityKernel9, start));
static_assert(offsetof(Cupti::Kernel, stream) == offsetof(CUpti_ActivityKernel9, streamId));
static_assert(offsetof(Cupti::Kernel, name) == offsetof(CUpti_ActivityKernel9, name));
static_assert(offsetof(Cupti::Memcpy, copy_kind) == offsetof(CUpti_ActivityMemcpy5, copyKind));
static_assert(offsetof(Cupti::Memcpy, start) == offsetof(CUpti_ActivityMemcpy5, start));
static_assert(offsetof(Cupti::Memcpy, stream) == offsetof(CUpti_ActivityMemcpy5, streamId));
static_assert(offsetof(Cupti::Memset, start) == offsetof(CUpti_ActivityMemset4, start));
static_assert(offsetof(Cupti::Memset, stream) == offsetof(CUpti_ActivityMemset4, streamId));
static_assert(Cupti::kInsufficientPrivileges == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
static_assert(Cupti::kMultipleSubscribers == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
#endif

/// Returns the first library that loads; if none does, the last one tried.
DynamicLibrary first_of(const std::vector<std::string>& libraries) {
  DynamicLibrary library(libraries.empty() ? "libcupti.so.13" : libraries.front());
  for (std::size_t i = 1; i < libraries.size() && !library.loaded(); ++i) {
    library = DynamicLibrary(libraries[i]);
  }
  return library;
}

const char* advice(Cupti::Result result) {
  switch (result) {
    case Cupti::kInsufficientPrivileges:
      return ": only administrators may profile on this machine; its administrator can allow it "
             "with the option NVreg_RestrictProfilingToAdminUsers=0 of the kernel module nvidia";
    case Cupti::kVirtualGpuPrivileges:
      return ": the host of this virtual GPU does not allow profiling; its administrator can allow "
             "it";
    case Cupti::kMultipleSubscribers:
      return ": another profiler is attached to this worker; run it without the other profiler";
    case Cupti::kNotCompatible:
      return ": another profiler is attached to this worker, or the driver is older than this "
             "CUPTI; run it without the other profiler, or install the CUPTI of the driver's CUDA "
             "version";
    default:
      return "";
  }
}

}  // namespace

Cupti::Cupti(const std::vector<std::string>& libraries) : library_(first_of(libraries)) {}

std::vector<std::string> Cupti::usual_libraries() {
  std::vector<std::string> all;
  for (const char* const name : {"libcupti.so.13", "libcupti.so.12"}) {
    all.emplace_back(name);
    for (const char* const folder : {"/usr/local/cuda/extras/CUPTI/lib64/",
                                     "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"}) {
      all.push_back(std::string(folder) + name);
    }
  }
  return all;
}

std::string Cupti::reason(const char* function, Result result) const {
  if (!loaded()) {
    return "found no libcupti.so.13 or .12 on this host; install the CUPTI of its CUDA toolkit "
           "(docs/install.md)";
  }
  const char* text = nullptr;
  if (call("cuptiGetResultString", result, &text) != kSuccess || text == nullptr) {
    text = "an unknown error";
  }
  return std::string(function) + " returned " + text + " (" + std::to_string(result) + ")" +
         advice(result);
}

}  // namespace pfc
