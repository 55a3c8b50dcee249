#include "coordinator/rules/blame/restart_budget.h"

#include <algorithm>

namespace pfc {

void spend_restart(RestartBudget& budget, std::chrono::milliseconds first_pause, TimePoint began,
                   TimePoint now) {
  constexpr int kMostDoublings = 16;
  budget.spent += 1;
  budget.counted_at = now;
  budget.quick = now - began < kQuick ? budget.quick + 1 : 0;
  budget.not_before = now;
  if (budget.quick < 2) return;
  const auto pause = first_pause * (1 << std::min(budget.quick - 2, kMostDoublings));
  budget.not_before = now + std::min<std::chrono::milliseconds>(pause, kLongestPause);
}

void refill(RestartBudget& budget, TimePoint now) {
  if (budget.spent == 0 || now - budget.counted_at < kRefill) return;
  budget.spent -= 1;
  budget.counted_at = now;
}

int count_crash(RestartBudget& budget, const CrashSite& site) {
  const bool same = budget.same_crash > 0 && budget.last_crash == site;
  budget.same_crash = same ? budget.same_crash + 1 : 1;
  budget.last_crash = site;
  return budget.same_crash;
}

}  // namespace pfc
