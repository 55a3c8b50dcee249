// Fake of the NVIDIA driver functions that GPU discovery calls, for machines without the driver.
// Compile definitions set its answers: FAKE_VERSION, FAKE_INIT (result of cuInit) and FAKE_GPUS.
#include <cstddef>
#include <cstdio>
#include <utility>

namespace {

// Values from cuda.h.
constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kNotInitialised = 3;
constexpr int kInvalidDevice = 101;
constexpr int kSystemNotReady = 802;

bool initialised = false;

/// Device handles differ from ordinals, so that mixing them up fails.
constexpr int kDeviceOffset = 40;

int check_device(int device) {
  if (!initialised) return kNotInitialised;
  return device >= kDeviceOffset && device < kDeviceOffset + FAKE_GPUS ? kSuccess : kInvalidDevice;
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = FAKE_VERSION;
  return kSuccess;
}

int cuInit(unsigned flags) {
  if (flags != 0) return kInvalidValue;
  initialised = FAKE_INIT == kSuccess;
  return FAKE_INIT;
}

int cuGetErrorName(int error, const char** name) {
  if (error != kSystemNotReady) return kInvalidValue;  // like a driver that does not know it
  *name = "CUDA_ERROR_SYSTEM_NOT_READY";
  return kSuccess;
}

int cuDeviceGetCount(int* count) {
  if (!initialised) return kNotInitialised;
  *count = FAKE_GPUS;
  return kSuccess;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal + kDeviceOffset;
  return check_device(*device);
}

int cuDeviceGetName(char* name, int length, int device) {
  // \x1b, an escape character, must not reach a terminal.
  std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU %c\x1b",
                'A' + device - kDeviceOffset);
  return check_device(device);
}

int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  *bytes = std::size_t{1 + static_cast<unsigned>(device - kDeviceOffset)} << 34;
  return check_device(device);
}

int cuDeviceGetPCIBusId(char* id, int length, int device) {
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0",
                0x1B + device - kDeviceOffset);
  return check_device(device);
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  for (const auto& [known, answer] :
       {std::pair{75, 9}, std::pair{76, 1}, std::pair{38, 50 << 20}, std::pair{16, 132},
        std::pair{36, 2'619'000}, std::pair{37, 5120}}) {
    if (attribute != known) continue;
    *value = answer;
    return check_device(device);
  }
  return kInvalidValue;
}

}  // extern "C"
