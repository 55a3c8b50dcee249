// Fake of the CUPTI functions that the worker calls, for machines without a GPU. While kinds are
// enabled, the test simulates GPU work with fake_cupti_run(). The environment variable
// PFC_FAKE_CUPTI_ERROR sets the error that cuptiActivityEnable returns.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <set>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidParameter = 1;
constexpr int kMaxLimitReached = 12;
constexpr std::uint32_t kMemcpy = 1, kMemset = 2, kKernel = 10;
constexpr std::uint64_t kAhead = 7'000'000'000;  // offset to the monotonic clock, ns

using Request = void (*)(std::uint8_t**, std::size_t*, std::size_t*);
using Complete = void (*)(void*, std::uint32_t, std::uint8_t*, std::size_t, std::size_t);

// Same first and last fields as CUpti_ActivityKernel9, ...Memcpy5 and ...Memset4.
struct Kernel {
  std::uint32_t kind, unused[3];
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream, unused2[13];
  const char* name;
  std::uint64_t rest[13];
};
struct Copy {  // also a memset
  std::uint32_t kind;
  std::uint8_t copy_kind, source, target, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, unused[3];
  std::uint64_t rest[4];
};

std::mutex mutex;
Request request = nullptr;
Complete complete = nullptr;
std::set<std::uint32_t> enabled;
std::uint8_t* buffer = nullptr;
std::size_t size = 0, used = 0, records = 0, dropped = 0;
std::size_t most_of_buffer = 0;  // records; doubles, so that several buffers cost little

std::size_t size_of(std::uint32_t kind) { return kind == kKernel ? sizeof(Kernel) : sizeof(Copy); }

void hand_over() {
  if (buffer == nullptr) return;
  std::uint8_t* const full = buffer;
  buffer = nullptr;
  most_of_buffer *= 2;
  complete(nullptr, 0, full, size, used);
}

template <typename Record>
void put(const Record& record) {
  if (!enabled.contains(record.kind)) return;
  if (buffer != nullptr && (records == most_of_buffer || used + sizeof(record) > size)) hand_over();
  if (buffer == nullptr) {
    std::size_t most = 0;
    request(&buffer, &size, &most);
    used = records = 0;
  }
  if (buffer == nullptr) {
    ++dropped;
    return;
  }
  std::memcpy(buffer + used, &record, sizeof(record));
  used += sizeof(record);
  ++records;
}

std::uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec) + kAhead;
}

}  // namespace

extern "C" {

/// Simulates `ns` of GPU work from now on: a kernel if it has a name, otherwise a copy of `bytes`
/// to the device.
void fake_cupti_run(const char* name, std::uint32_t stream, std::uint64_t ns, std::uint64_t bytes) {
  const std::lock_guard lock(mutex);
  const std::uint64_t start = now();
  if (name != nullptr) {
    Kernel kernel{};
    kernel.kind = kKernel;
    kernel.start = start;
    kernel.end = start + ns;
    kernel.stream = stream;
    kernel.name = name;
    put(kernel);
  } else {
    Copy copy{};
    copy.kind = kMemcpy;
    copy.copy_kind = 1;
    copy.bytes = bytes;
    copy.start = start;
    copy.end = start + ns;
    copy.stream = stream;
    put(copy);
  }
}
/// Simulates lost records.
void fake_cupti_drop(std::size_t count) {
  const std::lock_guard lock(mutex);
  dropped += count;
}
std::size_t fake_cupti_enabled() {
  const std::lock_guard lock(mutex);
  return enabled.size();
}

int cuptiActivityRegisterCallbacks(Request on_request, Complete on_complete) {
  const std::lock_guard lock(mutex);
  request = on_request;
  complete = on_complete;
  most_of_buffer = 3;
  return kSuccess;
}
int cuptiActivityEnable(std::uint32_t kind) {
  const char* const error = std::getenv("PFC_FAKE_CUPTI_ERROR");  // NOLINT(concurrency-mt-unsafe)
  if (error != nullptr && kind == kMemset) return std::atoi(error);
  const std::lock_guard lock(mutex);
  enabled.insert(kind);
  return kSuccess;
}
int cuptiActivityDisable(std::uint32_t kind) {
  const std::lock_guard lock(mutex);
  enabled.erase(kind);
  return kSuccess;
}
int cuptiActivityFlushAll(std::uint32_t) {
  const std::lock_guard lock(mutex);
  hand_over();
  return kSuccess;
}
/// Called by the worker in `complete`, which runs with the mutex locked, so this must not lock it.
int cuptiActivityGetNextRecord(std::uint8_t* from, std::size_t bytes, std::uint8_t** record) {
  std::uint8_t* next = from;
  if (*record != nullptr) {
    std::uint32_t kind = 0;
    std::memcpy(&kind, *record, sizeof(kind));
    next = *record + size_of(kind);
  }
  if (next >= from + bytes) return kMaxLimitReached;
  *record = next;
  return kSuccess;
}
int cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* count) {
  if (count == nullptr) return kInvalidParameter;
  *count = dropped;
  dropped = 0;
  return kSuccess;
}
int cuptiGetTimestamp(std::uint64_t* time) {
  *time = now();
  return kSuccess;
}
int cuptiGetResultString(int result, const char** text) {
  *text = result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_UNKNOWN";
  return kSuccess;
}

}  // extern "C"
