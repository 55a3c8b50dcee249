#include "coordinator/rendezvous.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/counted.h"

namespace pfc {
namespace {

Decision wait_for(std::string reason) {
  return {.action = Action::kWait, .reason = std::move(reason)};
}

Decision act(Action action, std::string reason) {
  return {.action = action, .reason = std::move(reason)};
}

/// A failure that the coordinator itself has found.
Decision fail_with(Failure failure) {
  Decision decision = act(Action::kFail, failure.text());
  decision.failure = std::move(failure);
  return decision;
}

std::string workers_left(const ClusterState& state) {
  const auto left = std::count_if(state.workers.begin(), state.workers.end(),
                                  [](const WorkerState& worker) { return !worker.exit; });
  return counted(left, "worker");
}

/// SIGTERM; after a while SIGKILL; after another while the job ends without them.
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

/// The worker that the others have lost, when all that is known is that they have lost a peer.
std::optional<Failure> suspect_behind(const ClusterState& state, TimePoint now) {
  const bool only_peers_lost =
      std::all_of(state.failures.begin(), state.failures.end(),
                  [](const Failure& failure) { return failure.kind == Failure::Kind::kPeerLost; });
  if (!only_peers_lost || state.terminated_at) return {};
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
  if (auto suspect = suspect_behind(state, now)) return fail_with(std::move(*suspect));
  return end_by_force(state, config, now);
}

/// Workers can only write a checkpoint together, after all have joined; and there is nothing in it
/// while all of them say that they have not begun their first step.
bool may_have_trained(const ClusterState& state) {
  return all_joined(state) &&
         !std::all_of(state.workers.begin(), state.workers.end(),
                      [](const WorkerState& w) { return w.progress.starting(); });
}

Decision end_after_stop(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (all_exited(state)) return act(Action::kFinish, "the job has stopped");
  const bool may_save = may_have_trained(state) && !state.stop->urgent && !state.terminated_at;
  if (may_save && !state.stop_sent) return act(Action::kAskToStop, "stopping");
  if (may_save) {
    if (auto silent = find_silent(state, config.limits, now)) return fail_with(std::move(*silent));
  }
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
                   .who = "host " + host.name,
                   .what = "device: found \"cuda\", but " + host.no_gpu,
                   .at_start = true,
                   .at = now};
  }
  return {};
}

Decision gather_hosts(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  if (auto lacking = host_without_gpu(state, config.device, now)) {
    return fail_with(std::move(*lacking));
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

/// The most likely cause of all the others.
const Failure& root_cause(const ClusterState& state) {
  return *std::min_element(
      state.failures.begin(), state.failures.end(),
      [](const Failure& a, const Failure& b) { return a.kind < b.kind; });  // the first of equals
}

/// The ranks whose failure reads the same.
std::set<Rank> ranks_with(const ClusterState& state, const std::string& what) {
  std::set<Rank> ranks;
  for (const Failure& failure : state.failures) {
    if (failure.rank && failure.what == what) ranks.insert(*failure.rank);
  }
  return ranks;
}

/// "ranks 0-2, 5"
std::string ranks_text(const std::set<Rank>& ranks) {
  std::string text;
  for (auto first = ranks.begin(); first != ranks.end();) {
    auto last = first;
    while (std::next(last) != ranks.end() && *std::next(last) == *last + 1) ++last;
    text += (text.empty() ? "ranks " : ", ") + std::to_string(*first);
    if (last != first) text += "-" + std::to_string(*last);
    first = std::next(last);
  }
  return text;
}

/// One line for this failure and for all that read the same.
std::string line_of(const ClusterState& state, const Failure& failure) {
  const std::set<Rank> ranks = ranks_with(state, failure.what);
  return ranks.size() < 2 ? failure.text() : ranks_text(ranks) + ": " + failure.what;
}

void start_generation(ClusterState& state, const std::vector<Member>& members, TimePoint now) {
  state.generation += 1;
  state.generation_started_at = now;
  state.workers.clear();
  for (const Member& member : members) {
    HostState& host = *find_host(state, member.host);
    if (member.slot == 0) {
      host.first_rank = member.rank;
      host.incarnation += 1;
    }
    state.workers.push_back({.rank = member.rank,
                             .host = member.host,
                             .slot = member.slot,
                             .incarnation = host.incarnation,
                             .last_heard = now,
                             .last_moved = now});
  }
}

}  // namespace

std::vector<Member> assign_ranks(std::span<const HostState> hosts) {
  std::vector<Member> members;
  for (const HostState& host : hosts) {
    for (int slot = 0; slot < host.slots; ++slot) {
      members.push_back(
          {.rank = static_cast<Rank>(members.size()), .host = host.name, .slot = slot});
    }
  }
  return members;
}

void apply(ClusterState& state, const Decision& decision, TimePoint now) {
  switch (decision.action) {
    case Action::kWait:
    case Action::kFinish:
      return;
    case Action::kStartGeneration:
      return start_generation(state, decision.members, now);
    case Action::kFail:
      return fail(state, *decision.failure);
    case Action::kAskToStop:
      state.stop_sent = true;
      return;
    case Action::kTerminate:
      state.terminated_at = now;
      return;
    case Action::kKill:
      state.killed_at = now;
      return;
  }
}

Decision decide(const ClusterState& state, const RendezvousConfig& config, TimePoint now) {
  // A failure ends the job, whatever else is going on.
  if (!state.failures.empty()) return end_after_failure(state, config, now);
  // A stop that was asked for.
  if (state.stop) return end_after_stop(state, config, now);
  // Somebody who never came, or is silent, or does not leave.
  if (auto late = find_overdue(state, config.limits, now)) return fail_with(std::move(*late));
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
    result.message = "job failed: " + line_of(state, root);
    return result;
  }
  const auto ended_by_itself = [](const WorkerState& worker) {
    return worker.report && (worker.report->outcome == proto::OUTCOME_COMPLETED ||
                             worker.report->outcome == proto::OUTCOME_STOPPED);
  };
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
  const bool nothing_to_save = !may_have_trained(state);
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

std::vector<std::string> failure_lines(const ClusterState& state) {
  std::vector<std::string> lines;
  for (const Failure& failure : state.failures) {
    std::string line = line_of(state, failure);
    if (std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace pfc
