#include "coordinator/rules/progress/stragglers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/median.h"

namespace pfc {

void Stragglers::add(Rank rank, const proto::Progress& before, const proto::Progress& now) {
  const std::int64_t steps = now.step() - before.step();
  const double seconds = now.own_seconds() - before.own_seconds();
  if (steps <= 0 || before.own_seconds() == 0 || !std::isfinite(seconds) || seconds < 0) return;
  Own& own = ranks_[rank];
  own.last.push_back(seconds / static_cast<double>(steps));
  if (own.last.size() > kReports) own.last.pop_front();
  if (own.last.size() == kReports) own.median = median_of({own.last.begin(), own.last.end()});
  changed_ = true;
}

std::vector<Stragglers::Change> Stragglers::update() {
  if (!std::exchange(changed_, false)) return {};
  std::vector<double> medians;
  for (const auto& [rank, own] : ranks_) {
    if (own.median > 0) medians.push_back(own.median);
  }
  if (medians.size() < 2) return {};
  std::ranges::sort(medians);
  std::vector<Change> changes;
  for (auto& [rank, own] : ranks_) {
    if (own.median == 0) continue;
    // Median of the other ranks' values: the lower of the two middle values, if there are two.
    const std::size_t middle = (medians.size() - 2) / 2;
    const auto place =
        static_cast<std::size_t>(std::ranges::lower_bound(medians, own.median) - medians.begin());
    const double others = medians[place <= middle ? middle + 1 : middle];
    const bool was = own.slowness > 0;
    const double least = others + (was ? 0 : kLeastSeconds);
    const bool is = own.median >= (was ? kEnds : kBegins) * others && own.median >= least;
    own.slowness = is ? own.median / std::max(others, 1e-9) : 0;
    if (is != was) changes.push_back({rank, is, own.median, others});
  }
  return changes;
}

double Stragglers::slowness(Rank rank) const {
  const auto own = ranks_.find(rank);
  return own == ranks_.end() ? 0 : own->second.slowness;
}

double Stragglers::own_seconds(Rank rank) const {
  const auto own = ranks_.find(rank);
  return own == ranks_.end() ? 0 : own->second.median;
}

std::string to_text(const Stragglers::Change& change) {
  char text[160];
  if (change.begins) {
    std::snprintf(text, sizeof(text),
                  "is slow: its own work takes %.3f s a step, %.1f times as long as that of the "
                  "other ranks (%.3f s)",
                  change.own_seconds, change.own_seconds / std::max(change.others_seconds, 1e-9),
                  change.others_seconds);
  } else {
    std::snprintf(text, sizeof(text),
                  "is no longer slow: its own work takes %.3f s a step, that "
                  "of the other ranks %.3f s",
                  change.own_seconds, change.others_seconds);
  }
  return text;
}

}  // namespace pfc
