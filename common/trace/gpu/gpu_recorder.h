// Records what a GPU does while a trace is taken.
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

/// CUPTI's activity records of this process. Loads CUPTI with the first begin(), enables nothing
/// between end() and begin(). Belongs to one thread. CUPTI serves a process once: of two that
/// record at a time the second one says so. Keeps at most kMostRecords, and half as many names; and
/// at most kMostBuffers of kBufferBytes are CUPTI's.
class GpuRecorder {
 public:
  static constexpr std::size_t kMostRecords = std::size_t{1} << 16;
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
  static constexpr int kMostBuffers = 16;

  explicit GpuRecorder(std::vector<std::string> libraries = Cupti::usual_libraries());
  ~GpuRecorder();
  GpuRecorder(const GpuRecorder&) = delete;
  GpuRecorder& operator=(const GpuRecorder&) = delete;

  /// Never throws for a CUPTI that is absent or refuses: GpuActivity::problem says why.
  void begin();
  /// What was recorded since begin(). Waits up to `patience` for kernels that were enqueued before.
  /// Without begin() there are none.
  GpuActivity end(std::chrono::milliseconds patience);
  void cancel();  ///< nobody wants what is recorded, if anything is

 private:
  [[nodiscard]] Cupti::Result enable();
  void disable();
  /// How far CUPTI's clock is ahead of this machine's.
  [[nodiscard]] std::optional<ClockOffset> clock() const;
  void refuse(const char* function, Cupti::Result result);

  const std::vector<std::string> libraries_;
  std::unique_ptr<Cupti> cupti_;  // null: not requested yet
  bool enabled_ = false;
  ClockOffset before_;
  std::string problem_;
};

}  // namespace pfc
