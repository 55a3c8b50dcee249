// Reports what a worker does before its first step: to the coordinator, which ends a job that does
// not start, and to the user who waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/machine/process_work.h"
#include "worker/coordinator_link/coordinator_client.h"

namespace pfc {

/// Returns whether a process has computed or read a significant amount since `before`, more than
/// waiting and heartbeats need.
bool has_worked(const ProcessWork& before, const ProcessWork& now);

/// Sends the texts of tell() to the coordinator. A background thread also reports that the process
/// is busy, which distinguishes a long start from a hang. REQUIRES: destroyed before the first
/// step, because ProgressReporter reports steps. Only one thread calls tell().
class StartReport {
 public:
  static constexpr std::chrono::milliseconds kTick{500};
  static constexpr std::chrono::seconds kPause{10};  ///< between two lines on stderr

  /// `client` is borrowed and may be nullptr. With `logs`, which rank 0 should set, a start that
  /// takes longer than kPause is also reported on stderr.
  StartReport(CoordinatorClient* client, bool logs, std::chrono::milliseconds tick = kTick);
  ~StartReport();
  StartReport(const StartReport&) = delete;
  StartReport& operator=(const StartReport&) = delete;

  /// Reports the current activity, such as "scanning /data/train.rec: 40 %".
  void tell(const std::string& what);

 private:
  void watch();

  CoordinatorClient* const client_;
  const bool logs_;
  const std::chrono::milliseconds tick_;
  TimePoint logged_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  Progress progress_;   // guarded by mutex_
  bool ended_ = false;  // guarded by mutex_
  std::thread thread_;  // last, because it uses all of the above
};

}  // namespace pfc
