// Tells the coordinator which step and which phase of it this worker is in, so that a worker that
// hangs can be told from one that is busy, and named with the phase that it hangs in.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "worker/report/coordinator_client.h"
#include "worker/report/phase_timer.h"

namespace pfc {

/// A thread looks at the phase and at the communicators once a tick, and reports when the phase or
/// a collective is another one than reported last, or when there are new numbers, and now and then
/// what the process and its GPU do. So the reports do
/// not depend on the length of a step: what the coordinator shows is at most a tick old, and there
/// are never more reports than ticks. The destructor reports what has not been reported.
///
/// update() and add_phases() are for the training thread. Client and timer are borrowed.
class ProgressReporter {
 public:
  static constexpr std::chrono::milliseconds kTick{100};

  struct Options {
    /// How far each communicator has come. REQUIRES: it is thread-safe, and waits for nothing.
    std::function<std::vector<Progress::CommTotal>()> comms;
    /// Asked every `vitals_pause`, on the thread of this object. Empty: there are none.
    std::function<ProcessVitals()> vitals = {};
    /// What is known before the first step. Where it says that the worker is starting, so do the
    /// reports until the first batch is there.
    Progress start = {};
    std::chrono::milliseconds tick = kTick;
    std::chrono::milliseconds vitals_pause{5'000};
  };
  ProgressReporter(CoordinatorClient& client, const PhaseTimer& phase, Options options);
  ~ProgressReporter();
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;

  /// The numbers of a step that is done, for the next report. Its `phase`, `comm` and `vitals` are
  /// not read: a report has those of the moment when it is made.
  void update(Progress progress);
  /// How long phases took that belong to no step, for the next report.
  void add_phases(const std::vector<PhaseTimer::Sample>& samples);
  /// Takes the steps that are saved, and the checkpoints, of this.
  void saved(const Progress& so_far);

  /// What the thread does every tick. Thread-safe.
  void report();

 private:
  void watch();
  void look_at_vitals();
  void report_changes();  ///< REQUIRES: mutex_ is held.

  CoordinatorClient& client_;
  const PhaseTimer& phase_;
  const Options options_;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  Progress next_;         // guarded by mutex_; its phase and comm are those reported last
  bool changed_ = false;  // guarded by mutex_; next_ has numbers that have not been reported
  bool ended_ = false;    // guarded by mutex_
  TimePoint vitals_at_;   // the thread's: when they were asked for last
  std::thread thread_;
};

}  // namespace pfc
