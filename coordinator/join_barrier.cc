#include "coordinator/join_barrier.h"

#include <algorithm>
#include <utility>

namespace pfc {
namespace {

proto::JoinReply make_reply(const ClusterState& state, Rank rank, const std::string& job_json) {
  const WorkerState& worker = state.workers.at(rank);
  proto::JoinReply reply;
  reply.set_rank(rank);
  reply.set_generation(state.generation);
  reply.set_world_size(static_cast<int>(state.workers.size()));
  reply.set_local_rank(worker.slot);
  reply.set_job_json(job_json);
  for (const HostState& host : state.hosts) {
    if (host.name != worker.host) continue;
    reply.set_local_world_size(host.slots);
    reply.set_peer_address(host.address);
  }
  return reply;
}

}  // namespace

void JoinBarrier::wait(Rank rank, TimePoint since, TimePoint deadline,
                       Answer<proto::JoinReply> answer) {
  for (Waiter& waiter : waiters_) {
    if (waiter.rank != rank) continue;
    waiter.answer(Refusal{.kind = Refusal::Kind::kInvalid,
                          .message = "rank " + std::to_string(rank) + " joins a second time"});
    waiter = {.rank = rank, .since = since, .deadline = deadline, .answer = std::move(answer)};
    return;
  }
  waiters_.push_back(
      {.rank = rank, .since = since, .deadline = deadline, .answer = std::move(answer)});
}

void JoinBarrier::update(const ClusterState& state, const std::string& job_json, TimePoint now) {
  if (waiters_.empty()) return;
  const bool complete = all_joined(state);
  std::vector<Waiter> still_waiting;
  for (Waiter& waiter : std::exchange(waiters_, {})) {
    if (complete) {
      waiter.answer(make_reply(state, waiter.rank, job_json));
    } else if (waiter.deadline <= now) {
      const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - waiter.since);
      waiter.answer(Refusal{.kind = Refusal::Kind::kTimeout,
                            .message = missing_workers(state) + " has not joined after " +
                                       std::to_string(waited.count()) + " s"});
    } else {
      still_waiting.push_back(std::move(waiter));
    }
  }
  waiters_ = std::move(still_waiting);
}

void JoinBarrier::clear(const Refusal& why) {
  for (Waiter& waiter : std::exchange(waiters_, {})) waiter.answer(why);
}

}  // namespace pfc
