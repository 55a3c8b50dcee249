// Records GPU activity while a trace is taken.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/trace/gpu/cupti.h"
#include "common/trace/gpu/gpu_rows.h"

namespace pfc {

/// Collects CUPTI's activity records of this process. Loads CUPTI on the first begin(). Between
/// end() and the next begin(), CUPTI records nothing. Used by one thread. CUPTI serves one user per
/// process: a second concurrent recorder reports an error. Keeps at most kMostRecords records and
/// half as many names. CUPTI holds at most kMostBuffers buffers of kBufferBytes.
class GpuRecorder {
 public:
  static constexpr std::size_t kMostRecords = std::size_t{1} << 16;
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
  static constexpr int kMostBuffers = 16;

  explicit GpuRecorder(std::vector<std::string> libraries = Cupti::usual_libraries());
  ~GpuRecorder();
  GpuRecorder(const GpuRecorder&) = delete;
  GpuRecorder& operator=(const GpuRecorder&) = delete;

  /// Starts recording. Never throws if CUPTI is absent or fails: see GpuActivity::problem.
  void begin();
  /// Returns the records since begin(). Waits up to `patience` for kernels that were already
  /// enqueued. Without begin() the result is empty.
  GpuActivity end(std::chrono::milliseconds patience);
  void cancel();  ///< discards the recording, if there is one

 private:
  [[nodiscard]] Cupti::Result enable();
  void disable();
  /// Returns the offset from this machine's clock to CUPTI's.
  [[nodiscard]] std::optional<ClockOffset> clock() const;
  void refuse(const char* function, Cupti::Result result);

  const std::vector<std::string> libraries_;
  std::unique_ptr<Cupti> cupti_;  // nullptr before the first begin()
  bool enabled_ = false;
  ClockOffset before_;
  std::string problem_;
};

}  // namespace pfc
