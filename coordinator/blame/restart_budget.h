// How often a job may still be restarted, how long it pauses before, and whether the same thing
// has failed again. Plain values and functions of them.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/clock.h"
#include "common/ids.h"

namespace pfc {

/// What has failed, as seen from the data: the same rank of as many workers at the same step has
/// the same images.
struct CrashSite {
  Rank rank = 0;
  int workers = 0;
  std::int64_t step = 0;  ///< kBeforeJoining - exit code, of a worker that had not joined

  friend bool operator==(const CrashSite&, const CrashSite&) = default;
};
inline constexpr std::int64_t kBeforeJoining = -1;

/// Of one job.
struct RestartBudget {
  int spent = 0;         ///< restarts that have not come back
  TimePoint counted_at;  ///< when one was last spent, or came back
  int quick = 0;         ///< restarts one after another of generations that lasted shortly
  TimePoint not_before;  ///< when the next generation may begin
  CrashSite last_crash;  ///< of a worker that had begun to train
  int same_crash = 0;    ///< how often it was there, one after another; 0: there was none
};

/// One restart comes back with a checkpoint that is published so long after the last one was spent
/// or came back.
inline constexpr std::chrono::minutes kRefill{10};
/// A generation that has ended sooner was quick.
inline constexpr std::chrono::seconds kQuick{60};
/// The longest pause between quick restarts.
inline constexpr std::chrono::seconds kLongestPause{60};
/// So many crashes at the same place are no accident: the next restart would bring another.
inline constexpr int kSameCrashes = 3;

/// A restart begins because of a generation that began at `began`. `first_pause` is before the
/// second quick one; then each pause is twice as long.
void spend_restart(RestartBudget& budget, std::chrono::milliseconds first_pause, TimePoint began,
                   TimePoint now);

/// The job has published a checkpoint that is newer than all before.
void refill(RestartBudget& budget, TimePoint now);

/// Returns how often the job has crashed there, one time after another.
int count_crash(RestartBudget& budget, const CrashSite& site);

}  // namespace pfc
