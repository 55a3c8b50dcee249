#include "coordinator/workers/join_barrier.h"

#include <utility>
#include <variant>

namespace pfc {
namespace {

proto::JoinReply make_reply(const ClusterState& state, const WorkerState& worker,
                            const std::string& job_json, proto::CheckPart part) {
  proto::JoinReply reply;
  reply.set_rank(worker.rank);
  reply.set_generation(state.job.current.number);
  reply.set_world_size(static_cast<int>(state.job.current.workers.size()));
  reply.set_local_rank(worker.slot);
  reply.set_job_json(job_json);
  reply.set_check(part);
  reply.set_checkpoint_step(state.job.saved.checkpoint_step);
  reply.set_checkpoint_host(state.job.saved.checkpoint_host);
  reply.set_planned_workers(state.job.saved.planned_workers);
  for (const HostState& host : state.hosts) {
    if (host.name != worker.host) continue;
    reply.set_local_world_size(host.workers);
    reply.set_peer_address(peer_address(host));
    reply.set_host(host.name);
  }
  return reply;
}

/// Returns the worker in the current generation, or null. A waiter for the next one has none yet.
WorkerState* worker_of(ClusterState& state, const JoinBarrier::Waiter& waiter) {
  HostState* const host = find_host(state, waiter.host);
  return host == nullptr ? nullptr : find_worker(state, *host, waiter.slot, waiter.incarnation);
}

bool waits_for_next(const ClusterState& state, const JoinBarrier::Waiter& waiter) {
  return waiter.left >= state.job.current.number;
}

Refusal replaced() {
  return {.kind = Refusal::Kind::kOldGeneration,
          .message = "another process has this worker's place"};
}

Refusal too_late(const ClusterState& state, const JoinBarrier::Waiter& waiter, TimePoint now) {
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - waiter.since);
  const std::string missing = missing_workers(state);
  return {.kind = Refusal::Kind::kTimeout,
          .message = (missing.empty() ? "the next generation has not begun"
                                      : missing + " has not joined") +
                     (" after " + std::to_string(waited.count()) + " s")};
}

}  // namespace

void JoinBarrier::wait(ClusterState& state, Waiter waiter) {
  WorkerState* const worker = worker_of(state, waiter);
  if (worker != nullptr && !waits_for_next(state, waiter)) worker_joined(state, *worker);
  const auto is_same_process = [&](const Waiter& each) {
    return each.slot == waiter.slot && each.incarnation == waiter.incarnation &&
           each.host == waiter.host;
  };
  waiters_.answer_if(is_same_process, [](const Waiter&) {
    return Refusal{.kind = Refusal::Kind::kInvalid,
                   .message = "replaced by a later join request of this worker"};
  });
  waiters_.add(std::move(waiter));
}

void JoinBarrier::members_changed(ClusterState& state) {
  waiters_.answer_if(
      [&](const Waiter& waiter) {
        WorkerState* const worker = worker_of(state, waiter);
        if (worker != nullptr && !waits_for_next(state, waiter)) worker_joined(state, *worker);
        return worker == nullptr;
      },
      [](const Waiter&) { return replaced(); });
}

bool JoinBarrier::complete(ClusterState& state, const std::string& job_json,
                           proto::CheckPart part) {
  const auto reply_of = [&](const Waiter& waiter) -> std::variant<proto::JoinReply, Refusal> {
    const WorkerState* const worker = worker_of(state, waiter);
    if (worker == nullptr) return replaced();
    return make_reply(state, *worker, job_json, part);
  };
  return waiters_.answer_if([&](const Waiter& each) { return !waits_for_next(state, each); },
                            reply_of) > 0;
}

void JoinBarrier::expire(const ClusterState& state, TimePoint now) {
  waiters_.expire(now, [&](const Waiter& waiter) { return too_late(state, waiter, now); });
}

}  // namespace pfc
