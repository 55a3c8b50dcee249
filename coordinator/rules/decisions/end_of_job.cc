#include "coordinator/rules/decisions/end_of_job.h"

#include <algorithm>

#include "common/counted.h"
#include "coordinator/rules/verdict.h"

namespace pfc {
namespace {

std::string workers_left(const ClusterState& state) {
  return counted(std::ranges::count_if(state.job.current.workers,
                                       [](const WorkerState& worker) { return !worker.exit; }),
                 "worker");
}

Clock::duration time_to_save(const StopRequest& stop, const RendezvousConfig& config) {
  return stop.leaving.empty() ? config.stop : std::min(config.stop, stop.within);
}

/// Returns whether workers may have unsaved progress.
bool may_save(const ClusterState& state) {
  if (!may_have_trained(state) || state.job.stop->urgent || state.job.terminated_at) return false;
  return std::ranges::any_of(state.job.current.workers, takes_part);
}

}  // namespace

Decision end_by_force(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (!state.job.terminated_at) return act(action::Terminate(), "ending " + workers_left(state));
  if (!state.job.killed_at) {
    if (now < *state.job.terminated_at + config.terminate)
      return wait_for("waiting for workers to end");
    return act(action::Kill(), "killing " + workers_left(state));
  }
  if (now < *state.job.killed_at + config.kill) return wait_for("waiting for killed workers");
  return act(action::Finish(), "giving up on " + workers_left(state));
}

bool cause_is_unknown(const ClusterState& state) {
  return std::ranges::all_of(state.job.current.incidents, [](const Incident& incident) {
    return incident.kind == Incident::Kind::kPeerLost;
  });
}

Decision end_after_failure(const ClusterState& state, const RendezvousConfig& config,
                           TimePoint now) {
  if (all_exited(state)) return act(action::Finish(), "the job has failed");
  if (state.job.terminated_at) return end_by_force(state, config, now);
  const Incident& first = state.job.current.incidents.front();
  const bool urgent = state.job.stop && state.job.stop->urgent;
  const bool may_notice =
      !first.at_start && !urgent && std::ranges::any_of(state.job.current.workers, takes_part);
  if (may_notice && now < first.at + config.grace) {
    return wait_for("a worker has failed; its peers are given time to notice");
  }
  if (cause_is_unknown(state)) {
    if (auto suspect = find_suspect(state, now)) {
      return ask_and_blame(state, {std::move(*suspect)}, now);
    }
  }
  return end_by_force(state, config, now);
}

Decision end_after_stop(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (all_exited(state)) return act(action::Finish(), "the job has stopped");
  if (!may_save(state)) return end_by_force(state, config, now);
  if (!state.job.current.stop_sent) return act(action::AskToStop(), "stopping");
  auto silent = find_silent(state, config.limits, now);
  if (!silent.empty()) return blame(std::move(silent));
  if (now < state.job.stop->at + time_to_save(*state.job.stop, config)) {
    return wait_for("stopping: workers write a checkpoint and end");
  }
  return end_by_force(state, config, now);
}

}  // namespace pfc
