// Limits restarts: how many are left, the pause before the next one, and repeated crashes. Plain
// values and functions of them.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/clock.h"
#include "common/ids.h"

namespace pfc {

/// Place of a crash. At the same rank, number of workers and step, a worker has the same images.
struct CrashSite {
  Rank rank = 0;
  int workers = 0;
  std::int64_t step = 0;  ///< if the worker had not joined: kBeforeJoining minus its exit code

  friend bool operator==(const CrashSite&, const CrashSite&) = default;
};
inline constexpr std::int64_t kBeforeJoining = -1;

/// Restarts of one job.
struct RestartBudget {
  int spent = 0;         ///< restarts used and not refilled
  TimePoint counted_at;  ///< time of the last use or refill
  int quick = 0;         ///< consecutive restarts of short generations
  TimePoint not_before;  ///< earliest start of the next generation
  CrashSite last_crash;
  int same_crash = 0;  ///< consecutive crashes at last_crash; 0: none
};

/// A checkpoint gives one restart back if the last use or refill was at least this long ago.
inline constexpr std::chrono::minutes kRefill{10};
/// A generation shorter than this is short; the restart after it is called quick.
inline constexpr std::chrono::seconds kQuick{60};
/// Maximum pause between quick restarts.
inline constexpr std::chrono::seconds kLongestPause{60};
/// After this many crashes at one place the job fails, because it would crash there again.
inline constexpr int kSameCrashes = 3;

/// Uses a restart after a generation that began at `began`. `first_pause` is the pause before the
/// second quick restart in a row; it doubles each time.
void spend_restart(RestartBudget& budget, std::chrono::milliseconds first_pause, TimePoint began,
                   TimePoint now);

/// Called when the job has published a newer checkpoint.
void refill(RestartBudget& budget, TimePoint now);

/// Returns the number of consecutive crashes at this place.
int count_crash(RestartBudget& budget, const CrashSite& site);

}  // namespace pfc
