#include "coordinator/traces/traces.h"

#include <algorithm>
#include <utility>

namespace pfc {
namespace {

Refusal not_now(const std::string& why) {
  return {.kind = Refusal::Kind::kOldGeneration, .message = why};
}

/// Returns the newest progress of the workers. REQUIRES: there is one.
TraceWish wish_of(const std::vector<WorkerState>& workers, std::int64_t steps, TimePoint now) {
  const WorkerState& newest = *std::ranges::max_element(
      workers, {}, [](const WorkerState& worker) { return worker.progress.step(); });
  const proto::Progress& progress = newest.progress;
  return {.steps = steps,
          .step = progress.step(),
          .total_steps = progress.total_steps(),
          .step_seconds = progress.steps() > 0
                              ? progress.step_seconds() / static_cast<double>(progress.steps())
                              : 0,
          .told_seconds = seconds_since(newest.last_moved, now)};
}

}  // namespace

void Traces::start(const proto::StartTraceRequest& request,
                   const Answer<proto::StartTraceReply>& answer) {
  if (cluster_.closed) return answer(going_away());
  if (request.steps() < 1 || request.steps() > TraceGatherer::kMostSteps) {
    return answer(Refusal{.message = "found " + std::to_string(request.steps()) +
                                     " steps, expected 1 to " +
                                     std::to_string(TraceGatherer::kMostSteps)});
  }
  const std::vector<WorkerState>& workers = cluster_.state.job.current.workers;
  if (cluster_.state.job.id.empty())
    return answer(not_now("no job is running: there is nothing to trace"));
  if (cluster_.run.job.check)
    return answer(not_now("the running job is a check, which trains nothing"));
  if (workers.empty() || !std::ranges::all_of(workers, &WorkerState::training)) {
    return answer(not_now("the job is not training now (" + cluster_.reason +
                          "): ask again when pfcctl status shows that all workers are training"));
  }
  const TimePoint now = Clock::now();
  // If no command reads the current trace any more, the new one replaces it.
  if (gatherer_.goes_on() && gatherer_.is_read(now)) {
    return answer(not_now("a trace of steps " + std::to_string(gatherer_.steps().first) + " to " +
                          std::to_string(gatherer_.steps().last) +
                          " is being taken: ask again when it is done"));
  }
  const TraceWish wish = wish_of(workers, request.steps(), now);
  const auto steps = plan_trace(wish);
  if (!steps) {
    return answer(not_now("the job is at step " + std::to_string(wish.step) + " of " +
                          std::to_string(wish.total_steps) +
                          ": it ends before all workers could begin to record"));
  }
  begin(*steps, now);
  proto::StartTraceReply reply;
  reply.set_trace(gatherer_.id());
  reply.set_first_step(steps->first);
  reply.set_last_step(steps->last);
  reply.set_job_id(cluster_.state.job.id);
  reply.set_workers(static_cast<int>(workers.size()));
  answer(std::move(reply));
}

void Traces::begin(const TraceSteps& steps, TimePoint now) {
  std::vector<TraceGatherer::Worker> workers;
  for (const WorkerState& worker : cluster_.state.job.current.workers) {
    workers.push_back({.rank = worker.rank, .host = worker.host, .slot = worker.slot});
  }
  // The time makes the id different from those of an earlier coordinator's traces.
  const WallTime wall = std::chrono::system_clock::now();
  const std::int64_t id = std::max(to_ms(wall), gatherer_.id() + 1);
  gatherer_.begin(id, steps, workers, now, wall);
  for (const WorkerState& worker : cluster_.state.job.current.workers) {
    const auto order = gatherer_.order(worker.rank);
    if (!order) continue;
    proto::WorkerCommand command;
    *command.mutable_trace() = *order;
    command.set_stop(cluster_.state.job.current.stop_sent);
    cluster_.links.send(worker.rank, command);
  }
}

void Traces::read(const proto::ReadTraceRequest& request, Answer<proto::ReadTraceReply> answer,
                  const Patience& patience) {
  if (cluster_.closed) return answer(going_away());
  gatherer_.read(request, std::move(answer), patience, step_for_readers(), Clock::now());
}

void Traces::send(const proto::SendTraceRequest& request,
                  const Answer<proto::SendTraceReply>& answer) {
  answer(gatherer_.add(request, Clock::now()));
}

std::int64_t Traces::step_for_readers() const {
  std::int64_t step = 0;
  for (const WorkerState& worker : cluster_.state.job.current.workers) {
    step = std::max(step, worker.progress.step());
  }
  return step;
}

/// Also gives up workers that have reported their end, because they send their spans before that.
void Traces::expire(TimePoint now) {
  if (gatherer_.goes_on()) {
    for (const WorkerState& worker : cluster_.state.job.current.workers) {
      if (worker.exit || worker.report || worker.left || worker.paused) {
        gatherer_.lose(worker.rank, "the worker has ended before it had sent its whole trace");
      }
    }
  }
  gatherer_.expire(step_for_readers(), now);
}

}  // namespace pfc
