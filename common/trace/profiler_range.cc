#include "common/trace/profiler_range.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

namespace pfc {

#if __has_include(<nvtx3/nvToolsExt.h>)

namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("pfc");
  return made;
}

}  // namespace

ProfilerRange::ProfilerRange(const char* name) {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &range);
}

ProfilerRange::~ProfilerRange() { nvtxDomainRangePop(domain()); }

#else

ProfilerRange::ProfilerRange(const char* /*name*/) {}
ProfilerRange::~ProfilerRange() = default;

#endif

}  // namespace pfc
