// Requests and reports of the running job's workers.
#pragma once

#include <optional>
#include <string>

#include "coordinator/checks/checks.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/rules/progress/stragglers.h"
#include "coordinator/takeover/takeover.h"
#include "coordinator/traces/traces.h"
#include "coordinator/workers/join_barrier.h"
#include "coordinator/workers/key_values.h"

namespace pfc {

/// Used on the event loop only.
class Workers {
 public:
  Workers(Cluster& cluster, Takeover& takeover, const Checks& checks, const Traces& traces)
      : cluster_(cluster), takeover_(takeover), checks_(checks), traces_(traces) {}

  // Requests.

  void join(const proto::JoinRequest& request, Answer<proto::JoinReply> answer,
            const Patience& patience);
  bool attach(Rank rank, WorkerLink& link);  ///< returns false if there is no such rank
  void said(const proto::WorkerMessage& message);
  void link_closed(Rank rank, WorkerLink& link) { cluster_.links.remove_worker(rank, link); }
  void finish(const proto::FinishRequest& request, const Answer<proto::FinishReply>& answer);
  void set_value(const proto::SetValueRequest& request, const Answer<proto::SetValueReply>& answer);
  void get_value(const proto::GetValueRequest& request, const Answer<proto::GetValueReply>& answer,
                 const Patience& patience);
  void get_values(const proto::GetValuesRequest& request, Answer<proto::GetValuesReply> answer,
                  const Patience& patience);

  // For the coordinator.

  /// Ends the last generation: sends its workers the cause of the next one.
  void end_generation(const Refusal& why);
  /// Called when the generation's members have changed.
  void members_changed() { joins_.members_changed(cluster_.state); }
  void complete_join();  ///< answers the joins if all workers of the generation have joined
  void ask_to_stop() const;
  /// Asks the worker's agent what the worker does. If the agent is not connected, the worker is
  /// blamed without a description.
  void ask_for_description(Rank rank) const;
  /// Called with the agent's reply.
  void described(WorkerState& worker, const std::string& text);
  void refuse_joins(const Refusal& why) { joins_.clear(why); }
  /// Refuses all waiting requests, and forgets the workers.
  void clear(const Refusal& why);
  /// Refuses requests at their deadlines, and reports stragglers.
  void expire(TimePoint now);
  /// Stragglers of the current generation.
  [[nodiscard]] const Stragglers& stragglers() const { return stragglers_; }

 private:
  /// Returns why a worker of another version may not join; nothing if it may.
  [[nodiscard]] std::optional<Refusal> wrong_version(const proto::JoinRequest& request,
                                                     const WorkerState& worker) const;
  void note_progress(WorkerState& worker, const proto::Progress& progress, TimePoint now);
  /// Handles the end of a worker's work in an earlier generation.
  proto::FinishReply finish_late(const WorkerState& worker, const proto::FinishRequest& request);
  void tell_stragglers();

  Cluster& cluster_;
  Takeover& takeover_;
  const Checks& checks_;
  const Traces& traces_;
  JoinBarrier joins_;
  KeyValues values_;
  Stragglers stragglers_;
};

}  // namespace pfc
