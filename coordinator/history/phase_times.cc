#include "coordinator/history/phase_times.h"

#include <algorithm>

namespace pfc {

std::size_t PhaseTimes::number_of(const std::string& name) {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
  if (names_.size() < kMostNames) names_.push_back(names_.size() + 1 < kMostNames ? name : "other");
  return names_.size() - 1;
}

void PhaseTimes::add(Rank rank, const proto::Progress& before, const proto::Progress& report) {
  if (rank < 0) return;
  const auto number = static_cast<std::size_t>(rank);
  if (ranks_.size() <= number) ranks_.resize(number + 1);
  OfRank& sums = ranks_[number];
  if (report.step() > before.step()) {
    sums.steps += static_cast<double>(report.step() - before.step());
  }
  for (const proto::PhaseSeconds& sample : report.phases()) {
    const std::size_t name = number_of(sample.phase());
    if (sums.seconds.size() <= name) sums.seconds.resize(name + 1);
    sums.seconds[name] += sample.seconds();
    sums.total += sample.seconds();
  }
  // At least one whole step stays in the sums, even if it took longer than the window, as a step
  // with an evaluation may.
  while (sums.total > kWindow && sums.steps >= 2) {
    for (double& each : sums.seconds) each /= 2;
    sums.total /= 2;
    sums.steps /= 2;
  }
}

void PhaseTimes::clear() {
  names_.clear();
  ranks_.clear();
}

std::vector<double> PhaseTimes::seconds_a_step(Rank rank) const {
  if (rank < 0 || static_cast<std::size_t>(rank) >= ranks_.size()) return {};
  const OfRank& sums = ranks_[static_cast<std::size_t>(rank)];
  if (sums.steps <= 0) return {};
  std::vector<double> seconds = sums.seconds;
  for (double& each : seconds) each /= sums.steps;
  return seconds;
}

}  // namespace pfc
