#include "common/trace/gpu/gpu_recorder.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace pfc {
namespace {

using std::chrono::milliseconds;

/// Destination of CUPTI's callbacks. One per process, because the callbacks have no user argument.
class Sink {
 public:
  /// Returns false if it is already in use.
  bool open(const Cupti& cupti) {
    const std::lock_guard lock(mutex_);
    if (cupti_ != nullptr) return false;
    cupti_ = &cupti;
    activity_ = {};
    names_.clear();
    newest_ns_ = 0;
    return true;
  }
  GpuActivity close() {
    const std::lock_guard lock(mutex_);
    cupti_ = nullptr;
    names_.clear();
    return std::exchange(activity_, {});
  }
  [[nodiscard]] std::uint64_t newest_ns() {
    const std::lock_guard lock(mutex_);
    return newest_ns_;
  }

  /// Returns nullptr if CUPTI holds kMostBuffers already. CUPTI then drops records and counts them.
  std::uint8_t* buffer() {
    const std::lock_guard lock(mutex_);
    if (cupti_ == nullptr || buffers_ >= GpuRecorder::kMostBuffers) return nullptr;
    void* const memory = std::aligned_alloc(Cupti::kRecordAlignment, GpuRecorder::kBufferBytes);
    if (memory != nullptr) ++buffers_;
    return static_cast<std::uint8_t*>(memory);
  }

  void complete(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (cupti_ != nullptr) {
      try {
        read(buffer, bytes);
      } catch (const std::exception&) {  // out of memory; CUPTI's thread cannot handle exceptions
        ++activity_.dropped;
      }
      std::size_t dropped = 0;
      if (cupti_->call("cuptiActivityGetNumDroppedRecords", context, stream, &dropped) ==
          Cupti::kSuccess) {
        activity_.dropped += dropped;
      }
    }
    std::free(buffer);
    if (buffer != nullptr) --buffers_;
  }

 private:
  void read(std::uint8_t* buffer, std::size_t bytes) {
    Cupti::Record* record = nullptr;
    while (cupti_->call("cuptiActivityGetNextRecord", buffer, bytes, &record) == Cupti::kSuccess) {
      if (record->kind == Cupti::kConcurrentKernel) {
        const auto& kernel = *reinterpret_cast<const Cupti::Kernel*>(record);
        add({name_of(kernel.name), kernel.start, kernel.end, 0, kernel.stream});
      } else if (record->kind == Cupti::kMemcpy) {
        const auto& copy = *reinterpret_cast<const Cupti::Memcpy*>(record);
        add({name_of_copy(copy.copy_kind), copy.start, copy.end, copy.bytes, copy.stream});
      } else if (record->kind == Cupti::kMemset) {
        const auto& set = *reinterpret_cast<const Cupti::Memset*>(record);
        add({"memset", set.start, set.end, set.bytes, set.stream});
      }
    }
  }

  void add(const GpuRecord& record) {
    if (record.begin_ns == 0 || record.end_ns < record.begin_ns) return;  // was still running
    newest_ns_ = std::max(newest_ns_, record.begin_ns);
    if (activity_.records.size() < GpuRecorder::kMostRecords) {
      activity_.records.push_back(record);
      return;
    }
    ++activity_.dropped;
    auto& until = activity_.complete_until_ns;
    until = until ? std::min(*until, record.begin_ns) : record.begin_ns;
  }

  const char* name_of(const char* mangled) {
    constexpr std::size_t kMostNames = GpuRecorder::kMostRecords / 2;
    const std::string key = mangled == nullptr ? "" : mangled;
    const auto found = names_.find(key);
    if (found != names_.end()) return found->second;
    if (names_.size() >= kMostNames) return "kernel";
    const char* const name = activity_.names.insert(kernel_name(mangled)).first->c_str();
    names_.emplace(key, name);
    return name;
  }

  static const char* name_of_copy(std::uint8_t kind) {
    switch (kind) {  // CUpti_ActivityMemcpyKind
      case 1:
        return "copy host to device";
      case 2:
        return "copy device to host";
      case 8:
        return "copy device to device";
      case 10:
        return "copy between devices";
      default:
        return "copy";
    }
  }

  std::mutex mutex_;
  // Guarded by mutex_:
  const Cupti* cupti_ = nullptr;  // nullptr while not recording
  GpuActivity activity_;
  std::map<std::string, const char*> names_;  // key: mangled name
  std::uint64_t newest_ns_ = 0;
  int buffers_ = 0;  // held by CUPTI
};

/// Never destroyed, because CUPTI's callbacks run until the process ends.
Sink& sink() {
  static Sink* const only = new Sink;
  return *only;
}

void on_request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = sink().buffer();
  *bytes = *buffer == nullptr ? 0 : GpuRecorder::kBufferBytes;
  *most_records = 0;  // 0: as many as fit
}

void on_complete(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                 std::size_t valid_bytes) {
  sink().complete(context, stream, buffer, valid_bytes);
}

constexpr std::array kKinds{Cupti::kConcurrentKernel, Cupti::kMemcpy, Cupti::kMemset};
constexpr int kReadings = 8;

}  // namespace

GpuRecorder::GpuRecorder(std::vector<std::string> libraries) : libraries_(std::move(libraries)) {}

GpuRecorder::~GpuRecorder() { cancel(); }

void GpuRecorder::cancel() {
  if (!enabled_) return;
  enabled_ = false;
  disable();
  static_cast<void>(sink().close());
}

void GpuRecorder::refuse(const char* function, Cupti::Result result) {
  problem_ = cupti_->reason(function, result);
}

void GpuRecorder::begin() {
  cancel();
  problem_.clear();
  if (!cupti_) cupti_ = std::make_unique<Cupti>(libraries_);
  if (!cupti_->loaded()) return refuse("", Cupti::kUnknown);
  if (!sink().open(*cupti_)) {
    problem_ = "another recording of this process already uses CUPTI";
    return;
  }
  const Cupti::Result asked =
      cupti_->call("cuptiActivityRegisterCallbacks", &on_request, &on_complete);
  if (asked != Cupti::kSuccess) {
    refuse("cuptiActivityRegisterCallbacks", asked);
  } else if (const Cupti::Result result = enable(); result != Cupti::kSuccess) {
    refuse("cuptiActivityEnable", result);
  } else if (const auto now = clock()) {
    before_ = *now;
    enabled_ = true;
    return;
  } else {
    problem_ = "cuptiGetTimestamp failed";
  }
  disable();
  static_cast<void>(sink().close());
}

GpuActivity GpuRecorder::end(milliseconds patience) {
  if (!enabled_) return {.problem = problem_};
  const auto after = clock();
  const auto now_there =
      after ? (after->at.time_since_epoch() + after->offset) / std::chrono::nanoseconds(1) : 0;
  // Waits until a kernel that began after `now_there` is reported. Then all earlier kernels of its
  // stream have been reported too, but perhaps not those of other streams.
  for (const TimePoint until = Clock::now() + patience; Clock::now() < until;) {
    cupti_->call("cuptiActivityFlushAll", std::uint32_t{Cupti::kComplete});
    if (std::cmp_greater_equal(sink().newest_ns(), now_there)) break;
    std::this_thread::sleep_for(milliseconds(10));
  }
  disable();
  const Cupti::Result flushed =
      cupti_->call("cuptiActivityFlushAll", std::uint32_t{Cupti::kForced});
  enabled_ = false;
  GpuActivity activity = sink().close();
  activity.before = before_;
  activity.after = after.value_or(before_);
  if (flushed != Cupti::kSuccess && activity.records.empty()) {
    activity.problem = cupti_->reason("cuptiActivityFlushAll", flushed);
  }
  return activity;
}

Cupti::Result GpuRecorder::enable() {
  for (const std::uint32_t kind : kKinds) {
    const Cupti::Result result = cupti_->call("cuptiActivityEnable", kind);
    if (result != Cupti::kSuccess) return result;
  }
  return Cupti::kSuccess;
}

void GpuRecorder::disable() {
  for (const std::uint32_t kind : kKinds) cupti_->call("cuptiActivityDisable", kind);
}

std::optional<ClockOffset> GpuRecorder::clock() const {
  std::array<ClockReading, kReadings> readings;
  for (ClockReading& reading : readings) {
    std::uint64_t there = 0;
    reading.asked = Clock::now();
    if (cupti_->call("cuptiGetTimestamp", &there) != Cupti::kSuccess) return {};
    reading.answered = Clock::now();
    reading.there = WallTime(std::chrono::duration_cast<WallTime::duration>(
        std::chrono::nanoseconds(static_cast<std::int64_t>(there))));
  }
  return best_offset(readings);
}

}  // namespace pfc
