// What a coordinator remembers of its job, beside its state, for people who look: the page at /
// shows it (docs/page.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "coordinator/chronicle/cluster_watch.h"
#include "coordinator/chronicle/event_log.h"
#include "coordinator/chronicle/history.h"
#include "coordinator/chronicle/phase_times.h"
#include "coordinator/chronicle/start_notes.h"
#include "coordinator/cluster_state.h"
#include "coordinator/report/job_progress.h"

namespace pfc {

/// Takes a bounded amount of memory. It is not in the journal: a coordinator that has taken over
/// begins anew, and says so. Used on the event loop only.
class Chronicle {
 public:
  void begin_job();
  void begin_generation(const std::string& text);
  /// Another coordinator's job goes on. REQUIRES: the state was restored.
  void take_over(const ClusterState& state);
  /// Looks for what has happened since the last call.
  void observe(const ClusterState& state);
  void tell(ClusterEvent::Kind kind, Severity severity, const std::string& text,
            std::optional<Rank> rank = {});
  /// A worker has written a line.
  void add_output(Rank rank, std::string_view line) {
    if (rank == 0) start_notes_.add(line);
  }
  /// A worker in training reports. REQUIRES: the report is not yet in its state.
  void add_phases(const WorkerState& worker, const proto::Progress& report);
  /// Rank 0 has done another step, or several.
  void add_step(const JobProgress& progress);

  [[nodiscard]] const History& history() const { return history_; }
  [[nodiscard]] const EventLog& events() const { return events_; }
  [[nodiscard]] const PhaseTimes& phases() const { return phases_; }
  [[nodiscard]] const StartNotes& start_notes() const { return start_notes_; }
  /// The history begins at a takeover.
  [[nodiscard]] bool is_cut() const { return cut_; }

 private:
  History history_;
  EventLog events_;
  PhaseTimes phases_;
  StartNotes start_notes_;
  ClusterWatch watch_;
  bool cut_ = false;
};

}  // namespace pfc
