#include "coordinator/history/history.h"

#include <utility>

#include "common/clock.h"

namespace pfc {
namespace {

CurveValue one(double value) { return {.mean = value, .least = value, .most = value}; }

}  // namespace

void History::begin_job() {
  curve_.clear(to_ms(wall_now()));
  phases_.clear();
  start_notes_.clear();
  cut_ = false;
}

void History::begin_generation(const std::string& text) {
  phases_.clear();
  start_notes_.clear();
  tell(ClusterEvent::Kind::kGeneration, Severity::kNote, text);
}

void History::take_over(const ClusterState& state) {
  static_cast<void>(watch_.update(state));  // ignore earlier events
  curve_.clear(to_ms(wall_now()));
  cut_ = !state.job.id.empty();
  tell(ClusterEvent::Kind::kTakeover, Severity::kWarning,
       "a new coordinator has taken over from the one that was killed");
}

void History::observe(const ClusterState& state) {
  for (ClusterEvent& event : watch_.update(state)) {
    event.ms = to_ms(wall_now());
    events_.add(std::move(event));
  }
}

void History::tell(ClusterEvent::Kind kind, Severity severity, const std::string& text,
                   std::optional<Rank> rank) {
  events_.add(
      {.ms = to_ms(wall_now()), .kind = kind, .severity = severity, .rank = rank, .text = text});
}

void History::add_phases(const WorkerState& worker, const proto::Progress& report) {
  phases_.add(worker.rank, worker.progress, report);
}

void History::add_step(const JobProgress& progress) {
  curve_.add({.ms = to_ms(wall_now()),
              .step = progress.step(),
              .generation = progress.generation(),
              .reports = 1,
              .loss = one(progress.loss()),
              .samples_per_second = one(progress.samples_per_second())});
}

}  // namespace pfc
