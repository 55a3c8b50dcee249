// Fake profiler: NVTX loads it from NVTX_INJECTION64_PATH, and it records the calls.
#include <nvtx3/nvToolsExt.h>

#include <string>

namespace {

std::string& heard() {
  static std::string text;
  return text;
}

nvtxDomainHandle_t NVTX_API create(const char* name) {
  heard() += std::string("domain ") + name + "\n";
  return reinterpret_cast<nvtxDomainHandle_t>(&heard());
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
  const bool known = domain == reinterpret_cast<nvtxDomainHandle_t>(&heard()) &&
                     range->messageType == NVTX_MESSAGE_TYPE_ASCII;
  heard() += std::string("begin ") + (known ? range->message.ascii : "?") + "\n";
  return 0;
}

int NVTX_API pop(nvtxDomainHandle_t /*domain*/) {
  heard() += "end\n";
  return 0;
}

template <typename Function>
void take(NvtxFunctionTable table, unsigned size, unsigned index, Function function) {
  if (index < size) *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const char* pfc_heard() { return heard().c_str(); }

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
    return 0;
  }
  take(table, size, NVTX_CBID_CORE2_DomainCreateA, create);
  take(table, size, NVTX_CBID_CORE2_DomainRangePushEx, push);
  take(table, size, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

}  // extern "C"
