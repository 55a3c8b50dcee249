#include "coordinator/rendezvous.h"

#include <algorithm>
#include <utility>

namespace pfc {
namespace {

Decision wait_for(std::string reason) {
  return {.action = Action::kWait, .reason = std::move(reason)};
}

Decision act(Action action, std::string reason) {
  return {.action = action, .reason = std::move(reason)};
}

int count_left(const ClusterState& state) {
  return static_cast<int>(std::count_if(state.workers.begin(), state.workers.end(),
                                        [](const WorkerState& worker) { return !worker.exit; }));
}

std::string workers_left(const ClusterState& state) {
  const int left = count_left(state);
  return std::to_string(left) + (left == 1 ? " worker" : " workers");
}

/// SIGTERM, then SIGKILL, then no more patience.
Decision end_by_force(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (!state.terminated_at) return act(Action::kTerminate, "ending " + workers_left(state));
  if (!state.killed_at) {
    if (now < *state.terminated_at + config.terminate)
      return wait_for("waiting for workers to end");
    return act(Action::kKill, "killing " + workers_left(state));
  }
  if (now < *state.killed_at + config.kill) return wait_for("waiting for killed workers");
  return act(Action::kFinish, "giving up on " + workers_left(state));
}

/// When there are only complaints about peers: the silent worker that they may be about, once.
std::optional<Failure> suspect_behind(const ClusterState& state, TimePoint now) {
  const bool only_complaints =
      std::all_of(state.failures.begin(), state.failures.end(),
                  [](const Failure& failure) { return failure.kind == Failure::Kind::kPeerLost; });
  if (!only_complaints || state.terminated_at) return {};
  return find_suspect(state, now);
}

Decision end_after_failure(const ClusterState& state, const RendezvousConfig& config,
                           TimePoint now) {
  if (all_exited(state)) return act(Action::kFinish, "the job has failed");
  const bool urgent = state.stop && state.stop->urgent;
  const bool may_notice = !state.failures.front().at_start && !urgent;
  if (may_notice && now < state.failures.front().at + config.grace && !state.terminated_at) {
    return wait_for("a worker has failed; its peers are given time to notice");
  }
  if (auto suspect = suspect_behind(state, now)) {
    Decision fail = act(Action::kFail, suspect->cause);
    fail.failures.push_back(std::move(*suspect));
    return fail;
  }
  return end_by_force(state, config, now);
}

Decision end_after_stop(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (all_exited(state)) return act(Action::kFinish, "the job has stopped");
  // A worker that has not joined has nothing to save, and nobody to save it with.
  const bool may_save = all_joined(state) && !state.stop->urgent && !state.terminated_at;
  if (may_save && !state.stop_sent) return act(Action::kAskToStop, "stopping");
  if (may_save && now < state.stop->at + config.stop) {
    return wait_for("stopping: workers write a checkpoint and end");
  }
  return end_by_force(state, config, now);
}

/// A job that must have GPUs, and the host that has none.
std::optional<Failure> host_without_gpu(const ClusterState& state, DeviceChoice device,
                                        TimePoint now) {
  if (device != DeviceChoice::kCuda) return {};
  for (const HostState& host : state.hosts) {
    if (!host.registered || host.no_gpu.empty()) continue;
    return Failure{.kind = Failure::Kind::kCrash,
                   .rank = {},
                   .cause = "host " + host.name + ": device: found \"cuda\", but " + host.no_gpu,
                   .at_start = true,
                   .at = now};
  }
  return {};
}

Decision gather_hosts(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (auto lacking = host_without_gpu(state, config.device, now)) {
    Decision fail = act(Action::kFail, lacking->cause);
    fail.failures.push_back(std::move(*lacking));
    return fail;
  }
  const std::string missing = missing_hosts(state);
  if (!missing.empty()) return wait_for("waiting for " + missing + " to register");
  Decision start = act(Action::kStartGeneration, "all hosts are here");
  start.members = assign_ranks(state.hosts);
  return start;
}

Decision watch_training(const ClusterState& state) {
  if (all_exited(state)) return act(Action::kFinish, "all workers have completed");
  if (!all_joined(state)) return wait_for("waiting for workers to join");
  return wait_for("training");
}

/// The failure that the others follow from.
const Failure& root_cause(const ClusterState& state) {
  return *std::min_element(
      state.failures.begin(), state.failures.end(),
      [](const Failure& a, const Failure& b) { return a.kind < b.kind; });  // the first of equals
}

}  // namespace

Decision decide(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  // A failure ends the job, whatever else is going on.
  if (!state.failures.empty()) return end_after_failure(state, config, now);
  // A stop that was asked for.
  if (state.stop) return end_after_stop(state, config, now);
  // Somebody who never came, or is silent, or does not leave.
  if (auto late = find_overdue(state, config.limits, now)) {
    Decision fail = act(Action::kFail, late->cause);
    fail.failures.push_back(std::move(*late));
    return fail;
  }
  // Before the first generation.
  if (state.generation == 0) return gather_hosts(state, config, now);
  return watch_training(state);
}

Verdict verdict(const ClusterState& state) {
  Verdict result;
  if (!state.failures.empty()) {
    const Failure& root = root_cause(state);
    result.at_start = root.at_start;
    result.rank = root.rank;
    if (root.rank && state.workers.at(*root.rank).exit) {
      result.worker_exit_code = state.workers.at(*root.rank).exit->code;
    }
    result.message = "job failed: " + root.cause;
    return result;
  }
  const auto ended_by_itself = [](const WorkerState& worker) { return worker.report.has_value(); };
  const auto completed = [](const WorkerState& worker) {
    return worker.report && worker.report->outcome == proto::OUTCOME_COMPLETED;
  };
  if (!state.workers.empty() &&
      std::all_of(state.workers.begin(), state.workers.end(), completed)) {
    result.kind = Verdict::Kind::kCompleted;
    result.message = "job completed";
    return result;
  }
  const std::string by = state.stop ? " by " + state.stop->reason : "";
  const bool saved = !state.workers.empty() &&
                     std::all_of(state.workers.begin(), state.workers.end(), ended_by_itself);
  const bool nothing_to_save = state.workers.empty() || !all_joined(state);
  if (saved || nothing_to_save) {
    result.kind = Verdict::Kind::kStopped;
    result.message = "job stopped" + by + (saved ? "" : " before training began");
    return result;
  }
  const auto forced = std::find_if_not(state.workers.begin(), state.workers.end(), ended_by_itself);
  result.rank = forced->rank;
  result.message = "job stopped" + by + ", but " + name_of(*forced) + " had to be ended by force";
  return result;
}

}  // namespace pfc
