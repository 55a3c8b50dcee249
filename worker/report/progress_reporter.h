// Tells the coordinator what this worker does now, also within a long phase: so that a worker that
// is alive but stuck can be told from one that is busy, and named with its phase.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "worker/report/coordinator_client.h"
#include "worker/report/phase_timer.h"

namespace pfc {

/// update() belongs to the training thread. Client and timer are borrowed.
class ProgressReporter {
 public:
  ProgressReporter(CoordinatorClient& client, const PhaseTimer& phase,
                   std::chrono::milliseconds tick = std::chrono::milliseconds(500));
  ~ProgressReporter();
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;

  /// A step is done: reports at once. Between two steps a thread looks every tick, and reports
  /// again when the phase has changed.
  void update(Progress progress);

 private:
  void watch();
  void report_phase();  ///< holds mutex_

  CoordinatorClient& client_;
  const PhaseTimer& phase_;
  const std::chrono::milliseconds tick_;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  Progress last_;       // guarded by mutex_
  bool ended_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace pfc
