// What a worker does before its first step: for the coordinator, which ends a job that does not
// begin, and for a person who waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/machine/process_work.h"
#include "worker/report/coordinator_client.h"

namespace pfc {

/// Whether a process that had done `before` has computed or read anything worth mention since then,
/// and not only waited and sent heartbeats.
bool has_worked(const ProcessWork& before, const ProcessWork& now);

/// The coordinator gets what tell() is told, and, from a thread of its own, that the process works
/// on: so a long start is told from one that waits for ever. REQUIRES: destroyed before the first
/// step, whose reports are ProgressReporter's. tell() belongs to one thread.
class StartReport {
 public:
  static constexpr std::chrono::milliseconds kTick{500};
  static constexpr std::chrono::seconds kPause{10};  ///< between two lines on stderr

  /// `client` is borrowed and may be null. With `logs`, which rank 0 should have, a start that
  /// takes longer than kPause is also told on stderr.
  StartReport(CoordinatorClient* client, bool logs, std::chrono::milliseconds tick = kTick);
  ~StartReport();
  StartReport(const StartReport&) = delete;
  StartReport& operator=(const StartReport&) = delete;

  /// "scanning /data/train.rec: 40 %"
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
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace pfc
