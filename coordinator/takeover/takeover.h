// Saves the coordinator's state in its journal, and takes over from a killed coordinator.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "coordinator/cluster/cluster.h"
#include "coordinator/jobs/jobs.h"
#include "coordinator/journal/journal.h"

namespace pfc {

/// Used on the event loop only. Saves nothing before keep() and after the end of the job or
/// service.
class Takeover {
 public:
  Takeover(Cluster& cluster, Jobs& jobs) : cluster_(cluster), jobs_(jobs) {}

  /// Continues from the journal of a killed coordinator. Agents and workers have
  /// HealthLimits::start to come back before their silence counts. REQUIRES: called before keep()
  /// and Coordinator::start(), and no job was added.
  void begin(const JournalValues& journal);
  /// Reports when all agents and workers are back.
  void update(TimePoint now);
  /// Handles a worker of a generation that the inherited journal does not contain. That
  /// generation's number is not used again.
  void catch_up(const WorkerState& worker, Generation left);
  /// Records that the local agent and its workers ended with the earlier coordinator.
  void lose_local_agent(TimePoint now);

  /// Saves from now on what a successor needs. `own`: the ports, and the local agent, if any. Does
  /// not own the journal.
  void keep(Journal& journal, const proto::SavedCoordinator& own);
  /// Records that the local agent runs as process `pid`, so that a successor can take it over.
  /// `serial`: serial number of its certificate; empty in plaintext.
  void local_agent_runs(pid_t pid, const std::string& serial);
  void save_soon() { unsaved_ = true; }
  /// Saves the changes, and waits until they are in the journal's file, up to a timeout.
  void save_now();
  void save_worker(const WorkerState& worker);  ///< waits until it is saved, like save_now()
  /// Saves everything, also the workers' progress, and waits, so that values shown on a page
  /// survive a takeover.
  void save_with_progress() { save(true); }
  void save_if_due(TimePoint now);
  /// Deletes the journal, if there is one: there is nothing to take over.
  void remove_journal();

  /// Sets the takeovers of a status reply.
  void add_to(proto::StatusReply& status) const;
  [[nodiscard]] int takeovers() const { return own_.takeovers(); }
  [[nodiscard]] std::uint64_t failed_writes() const {
    return journal_ == nullptr ? 0 : journal_->failures();
  }

 private:
  void begin_job(const JournalValues& journal, TimePoint heard);
  void save(bool with_progress);
  // These are called while a Journal::Change is open.
  void save_job();
  void save_run();
  void save_queue();
  void save_progress();

  Cluster& cluster_;
  Jobs& jobs_;
  Journal* journal_ = nullptr;              ///< null: no journal
  proto::SavedCoordinator own_;             ///< set by keep(); also counts the takeovers
  bool unsaved_ = false;                    ///< changed since the last save()
  TimePoint progress_saved_;                ///< time of the last save of the progress
  Clock::duration progress_took_{};         ///< duration of the last save of the progress
  std::set<std::string> queued_;            ///< jobs of the queue that are in the journal
  std::string saved_job_;                   ///< job whose configuration is in the journal
  std::optional<TimePoint> awaited_since_;  ///< when the wait for agents and workers began
  double seconds_ = -1;  ///< time until all agents and workers were back; negative: not yet
};

}  // namespace pfc
