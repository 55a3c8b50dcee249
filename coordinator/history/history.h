// History of a job for the page at / (docs/page.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "coordinator/history/cluster_watch.h"
#include "coordinator/history/curve.h"
#include "coordinator/history/event_log.h"
#include "coordinator/history/phase_times.h"
#include "coordinator/history/start_notes.h"
#include "coordinator/rules/cluster_state.h"
#include "coordinator/rules/job_progress.h"

namespace pfc {

/// Uses bounded memory. Not stored in the journal: after a takeover it starts empty, and an event
/// says so. Used on the event loop only.
class History {
 public:
  void begin_job();
  void begin_generation(const std::string& text);
  /// Continues another coordinator's job. REQUIRES: the state was restored.
  void take_over(const ClusterState& state);
  /// Records the changes since the last call.
  void observe(const ClusterState& state);
  void tell(ClusterEvent::Kind kind, Severity severity, const std::string& text,
            std::optional<Rank> rank = {});
  /// Called for each line of a worker's output.
  void add_output(Rank rank, std::string_view line) {
    if (rank == 0) start_notes_.add(line);
  }
  /// Adds a report of a worker in training. REQUIRES: the worker's state does not contain it yet.
  void add_phases(const WorkerState& worker, const proto::Progress& report);
  /// Called when rank 0 has completed more steps.
  void add_step(const JobProgress& progress);

  [[nodiscard]] const Curve& curve() const { return curve_; }
  [[nodiscard]] const EventLog& events() const { return events_; }
  [[nodiscard]] const PhaseTimes& phases() const { return phases_; }
  [[nodiscard]] const StartNotes& start_notes() const { return start_notes_; }
  /// Returns whether the history begins at a takeover.
  [[nodiscard]] bool is_cut() const { return cut_; }

 private:
  Curve curve_;
  EventLog events_;
  PhaseTimes phases_;
  StartNotes start_notes_;
  ClusterWatch watch_;
  bool cut_ = false;
};

}  // namespace pfc
