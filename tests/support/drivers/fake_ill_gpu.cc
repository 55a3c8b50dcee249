// Fake of the NVML functions about GPU health, for machines without the driver. The GPU at
// 0000:1B:00.0 is healthy; the one at 0000:1C:00.0 is hot and has memory errors. Other health
// functions are absent, as in an older release.
#include <cstdio>
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotFound = 6;
constexpr int kNotSupported = 3;

struct Device {
  const char* pci;
  bool is_ill;
};
Device devices[] = {{"0000:1B:00.0", false}, {"0000:1C:00.0", true}};  // NOLINT

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }

int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "580.65.06");
  return kSuccess;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, Device** device) {
  for (Device& each : devices) {
    if (std::strcmp(each.pci, pci) != 0) continue;
    *device = &each;
    return kSuccess;
  }
  return kNotFound;
}

int nvmlDeviceGetName(Device*, char* text, unsigned size) {
  std::snprintf(text, size, "Fake GPU\a");
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(Device* device, unsigned long long* memory) {
  memory[0] = 100;
  memory[1] = device->is_ill ? 5 : 90;
  memory[2] = 100 - memory[1];
  return kSuccess;
}

int nvmlDeviceGetTotalEccErrors(Device* device, unsigned type, unsigned counter,
                                unsigned long long* errors) {
  if (type != 1 || counter != 0) return kNotSupported;
  *errors = device->is_ill ? 3 : 0;
  return kSuccess;
}

int nvmlDeviceGetClockInfo(Device* device, unsigned type, unsigned* clock) {
  if (type != 1) return kNotSupported;
  *clock = device->is_ill ? 600 : 1980;
  return kSuccess;
}

int nvmlDeviceGetMaxClockInfo(Device*, unsigned, unsigned* clock) {
  *clock = 1980;
  return kSuccess;
}

/// Bit 1 means idle, which is not a fault.
int nvmlDeviceGetCurrentClocksThrottleReasons(Device* device, unsigned long long* reasons) {
  *reasons = device->is_ill ? 0x21 : 0x1;
  return kSuccess;
}
}
