// Reports this worker's step and phase to the coordinator. This distinguishes a hanging worker
// from a busy one, and shows the phase in which it hangs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "worker/coordinator_link/coordinator_client.h"
#include "worker/report/phase_timer.h"

namespace pfc {

/// Runs a thread that looks at the phase and the communicators once per tick. The thread sends a
/// report when the phase or a collective differs from the last report, and when there are new
/// numbers. It also reports periodically what the process and its GPU do. So reports do not depend
/// on the length of a step: the coordinator's view is at most one tick old, and there is at most
/// one report per tick. The destructor sends what has not been reported.
///
/// update() and add_phases() are for the training thread. Client and timer are borrowed.
class ProgressReporter {
 public:
  static constexpr std::chrono::milliseconds kTick{100};

  struct Options {
    /// Returns the progress of each communicator. REQUIRES: thread-safe, and does not block.
    std::function<std::vector<Progress::CommTotal>()> comms;
    /// Called every `vitals_pause`, on the thread of this object. Empty: no vitals.
    std::function<ProcessVitals()> vitals = {};
    /// Values known before the first step. If they say that the worker is starting, all reports say
    /// so until the first batch has arrived.
    Progress start = {};
    std::chrono::milliseconds tick = kTick;
    std::chrono::milliseconds vitals_pause{5'000};
  };
  ProgressReporter(CoordinatorClient& client, const PhaseTimer& phase, Options options);
  ~ProgressReporter();
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;

  /// Sets the numbers of a finished step, for the next report. Ignores the members `phase`, `comm`
  /// and `vitals`, because each report reads their current values.
  void update(Progress progress);
  /// Adds the durations of phases outside of steps, for the next report.
  void add_phases(const std::vector<PhaseTimer::Sample>& samples);
  /// Copies the saved steps and the checkpoints from `so_far`.
  void saved(const Progress& so_far);

  /// Sends a report if needed. Called by the thread every tick. Thread-safe.
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
  Progress next_;  // guarded by mutex_; `phase` and `comm` have the values of the last report
  bool changed_ = false;                // guarded by mutex_; next_ has unreported numbers
  bool ended_ = false;                  // guarded by mutex_
  std::optional<TimePoint> vitals_at_;  // used only by thread_: when vitals were last read
  std::thread thread_;
};

}  // namespace pfc
