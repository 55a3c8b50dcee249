// Fake of the NVML functions that the worker calls, for machines without a GPU. It has one GPU,
// 0000:1B:00.0, which does not report its power.
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kUninitialised = 1;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;

int users = 0;
int gpu = 0;  // its address is the device handle

int check(const int* device) {
  if (users == 0) return kUninitialised;
  return device == &gpu ? kSuccess : kNotFound;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  ++users;
  return kSuccess;
}
int nvmlShutdown() {
  --users;
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, int** device) {
  if (std::strcmp(id, "0000:1B:00.0") != 0) return kNotFound;
  *device = &gpu;
  return check(&gpu);
}
int nvmlDeviceGetUtilizationRates(const int* device, unsigned* rates) {
  rates[0] = 87;
  rates[1] = 40;
  return check(device);
}
int nvmlDeviceGetMemoryInfo(const int* device, unsigned long long* memory) {
  memory[0] = 85'000'000'000;
  memory[1] = 25'000'000'000;
  memory[2] = 60'000'000'000;
  return check(device);
}
int nvmlDeviceGetTemperature(const int* device, int sensor, unsigned* celsius) {
  *celsius = sensor == 0 ? 64 : 0;
  return check(device);
}
int nvmlDeviceGetPowerUsage(const int*, unsigned*) { return kNotSupported; }
int nvmlDeviceGetCurrentClocksThrottleReasons(const int* device, unsigned long long* reasons) {
  *reasons = 0x2 | 0x20;  // clocks set by a user, and heat
  return check(device);
}

}  // extern "C"
