#include "coordinator/rules/progress/pace.h"

#include <algorithm>
#include <array>

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr std::array<std::string_view, 5> kWriting{"checkpoint", "write_model", "log", "report",
                                                   "dump"};
constexpr std::size_t kRemembered = 64;
constexpr std::int64_t kFirstSteps = 3;
// In seconds. Shorter checkpoints and evaluations are ignored: the phase "evaluate" also includes
// the broadcast before an evaluation.
constexpr double kShortestPause = 0.1;
constexpr int kFloorsOfEvaluation = 4;
constexpr double kLongest = 3600;  // seconds; a higher limit would be useless

milliseconds of_seconds(double seconds) {
  return milliseconds{static_cast<std::int64_t>(std::min(seconds, kLongest) * 1000)};
}

}  // namespace

Activity activity_of(std::string_view phase) {
  if (phase == "evaluate") return Activity::kEvaluation;
  if (phase == "neighbours") return Activity::kSearch;
  return std::ranges::count(kWriting, phase) > 0 ? Activity::kCheckpoint : Activity::kStep;
}

void Pace::add(const proto::Progress& progress, bool step_done) {
  double of_steps = 0;
  for (const proto::PhaseSeconds& sample : progress.phases()) {
    const Activity activity = activity_of(sample.phase());
    if (activity == Activity::kStep) {
      of_steps += sample.seconds();
    } else if (sample.longest() >= kShortestPause) {
      double& longest = activity == Activity::kCheckpoint   ? checkpoint_
                        : activity == Activity::kEvaluation ? evaluation_
                                                            : search_;
      longest = std::max(longest, sample.longest());
    }
  }
  if (!step_done) return;
  // A report may cover several steps. Then the time of one is overestimated, which does no harm.
  if (steps_.empty()) first_ = progress.step();
  if (steps_.empty() || steps_.back().number < progress.step()) {
    steps_.push_back({.number = progress.step()});
  }
  steps_.back().seconds = std::max(steps_.back().seconds, of_steps);
  if (steps_.size() > kRemembered) steps_.pop_front();
}

milliseconds Pace::limit(std::string_view phase, const PaceLimits& limits) const {
  const auto times = [&](double seconds, milliseconds least) {
    return std::max({of_seconds(limits.factor * seconds), least, limits.floor});
  };
  switch (activity_of(phase)) {
    case Activity::kCheckpoint:
      return times(checkpoint_, limits.unknown);
    case Activity::kEvaluation:
      return times(evaluation_,
                   evaluation_ == 0 ? limits.unknown : kFloorsOfEvaluation * limits.floor);
    case Activity::kSearch:
      return times(search_ == 0 ? kLongest : search_, limits.unknown);
    case Activity::kStep:
      break;
  }
  const bool known = !steps_.empty() && steps_.back().number - first_ + 1 >= kFirstSteps;
  if (!known) return times(0, limits.unknown);
  return times(std::ranges::max_element(steps_, {}, &Step::seconds)->seconds, limits.floor);
}

}  // namespace pfc
