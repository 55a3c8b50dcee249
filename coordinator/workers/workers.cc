#include "coordinator/workers/workers.h"

#include <algorithm>
#include <utility>

#include "common/one_line.h"
#include "common/version.h"
#include "common/workers/store_keys.h"
#include "coordinator/rules/decisions/restart.h"
#include "coordinator/rules/progress/progress_limits.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLongestDescription = 1'000;

/// Returns the caller's patience, limited by timeout_ms, and by the longest allowed timeout.
Patience patience_of(const Patience& patience, std::int64_t timeout_ms, const HealthLimits& limits,
                     TimePoint now) {
  const milliseconds longest =
      std::max<milliseconds>(std::chrono::hours{1}, 2 * (limits.start + kJoinSlack));
  return patience.until(now + std::clamp(milliseconds{timeout_ms}, milliseconds{0}, longest));
}

/// Returns the worker that a key asks about (common/workers/store_keys.h); nullptr for other keys.
const WorkerState* worker_of_key(const ClusterState& state, const std::string& key) {
  if (!key.starts_with(kDoingPrefix)) return nullptr;
  const auto& workers = state.job.current.workers;
  const auto found = std::ranges::find_if(
      workers, [&](const WorkerState& worker) { return key == doing_key(worker.rank); });
  return found == workers.end() ? nullptr : &*found;
}

Refusal unknown_worker(const proto::WorkerId& id) {
  return {.kind = Refusal::Kind::kOldGeneration,
          .message = "the worker in slot " + std::to_string(id.slot()) +
                     " of this agent (incarnation " + std::to_string(id.incarnation()) +
                     ") is not expected: another worker or agent has replaced it"};
}

}  // namespace

void Workers::join(const proto::JoinRequest& request, Answer<proto::JoinReply> answer,
                   const Patience& patience) {
  if (cluster_.closed) return answer(going_away());
  WorkerState* const worker = find_worker(cluster_.state, request.worker());
  if (worker == nullptr) return answer(unknown_worker(request.worker()));
  if (auto refusal = wrong_version(request, *worker)) return answer(*refusal);
  const TimePoint now = Clock::now();
  worker->last_heard = now;
  takeover_.catch_up(*worker, request.left_generation());
  joins_.wait(
      cluster_.state,
      {.host = worker->host,
       .slot = worker->slot,
       .incarnation = worker->incarnation,
       .left = request.left_generation(),
       .since = now,
       .patience =
           patience_of(patience, request.timeout_ms(), cluster_.run.config.limits, now).deadline(),
       .answer = std::move(answer)});
  complete_join();
  cluster_.advance();
}

/// Refuses a worker of another version, and in a check also one of unknown version, because it
/// would train.
std::optional<Refusal> Workers::wrong_version(const proto::JoinRequest& request,
                                              const WorkerState& worker) const {
  const std::string& theirs = request.version();
  if (theirs == version() || (theirs.empty() && !cluster_.run.job.check)) return {};
  return Refusal{.kind = Refusal::Kind::kInvalid,
                 .message = "host " + worker.host + " has pfc-worker " +
                            (theirs.empty() ? "of an older version" : theirs) +
                            ", the coordinator " + version() + ": install the same version"};
}

void Workers::complete_join() {
  const proto::CheckPart part = checks_.part();
  const bool alone = part == proto::CHECK_PART_ALONE;
  if (cluster_.state.job.current.workers.empty() || (!alone && !all_joined(cluster_.state))) return;
  if (cluster_.state.job.current.lost) return;  // the next generation begins
  if (!joins_.complete(cluster_.state, cluster_.run.job.json, part) || alone) return;
  // A worker that did not get its reply joins again, which does not concern the others.
  if (std::exchange(cluster_.state.job.current.begun, true)) return;
  // Workers send heartbeats and continue only after the last one has joined.
  const TimePoint now = Clock::now();
  for (WorkerState& each : cluster_.state.job.current.workers)
    each.last_heard = each.last_moved = now;
}

bool Workers::attach(Rank rank, WorkerLink& link) {
  if (cluster_.closed || find_worker(cluster_.state, rank) == nullptr) return false;
  cluster_.links.add_worker(rank, link);
  proto::WorkerCommand hello;
  hello.set_stop(cluster_.state.job.current.stop_sent);
  // The worker may have lost the connection before the order arrived.
  if (const auto order = traces_.order(rank)) *hello.mutable_trace() = *order;
  link.send(hello);
  return true;
}

void Workers::said(const proto::WorkerMessage& message) {
  WorkerState* worker = find_worker(cluster_.state, message.rank());
  if (worker == nullptr) return;
  const TimePoint now = Clock::now();
  worker->last_heard = now;
  if (!message.has_progress()) return;
  const TimePoint saved = cluster_.state.job.saved.at;
  note_progress(*worker, message.progress(), now);
  if (cluster_.state.job.saved.at != saved) cluster_.advance();  // a new host may wait for it
}

void Workers::note_progress(WorkerState& worker, const proto::Progress& progress, TimePoint now) {
  if (worker.report) return;  // already ended; its last progress is known
  const proto::Progress kept = limited(progress);
  if (worker.rank == 0 && kept.most_workers() > 0)
    cluster_.state.job.most_workers = kept.most_workers();
  if (worker.rank == 0 && kept.least_workers() > 0)
    cluster_.state.job.least_workers = kept.least_workers();
  if (worker.rank == 0) checkpoint_reported(cluster_.state, worker, kept);
  if (kept.starting()) return worker_progressed(worker, kept, now);
  if (worker.rank == 0) state_saved(cluster_.state, kept.saved_step(), now);
  if (!worker.training) takeover_.save_soon();
  cluster_.metrics.add_progress(worker, kept, now);
  cluster_.state.job.current.pace.add(kept, kept.step() > worker.progress.step());
  stragglers_.add(worker.rank, worker.progress, kept);
  cluster_.history.add_phases(worker, kept);
  // A generation's first report covers no step of its own.
  const bool is_another_step =
      worker.rank == 0 && kept.step() != worker.progress.step() && kept.samples_per_second() > 0;
  worker_progressed(worker, kept, now);
  cluster_.run.progress.update(cluster_.state, now);
  if (is_another_step) cluster_.history.add_step(cluster_.run.progress);
  if (worker.rank == 0) cluster_.terminal.progress(progress_line(cluster_.run.progress));
}

void Workers::tell_stragglers() {
  for (const Stragglers::Change& change : stragglers_.update()) {
    const WorkerState* const worker = find_worker(cluster_.state, change.rank);
    if (worker == nullptr) continue;
    cluster_.terminal.note(name_of(*worker) + " " + to_text(change),
                           change.begins ? Severity::kWarning : Severity::kNote);
    cluster_.history.tell(ClusterEvent::Kind::kStraggler,
                          change.begins ? Severity::kWarning : Severity::kNote,
                          name_of(*worker) + " " + to_text(change), worker->rank);
  }
}

void Workers::ask_for_description(Rank rank) const {
  const WorkerState& worker = *find_worker(cluster_.state, rank);
  proto::AgentCommand command;
  command.mutable_describe()->set_slot(worker.slot);
  command.mutable_describe()->set_incarnation(worker.incarnation);
  cluster_.links.send(worker.host, std::move(command));
}

void Workers::described(WorkerState& worker, const std::string& text) {
  if (!worker.description) return;  // the worker has made progress since
  worker.description->answered = true;
  worker.description->text = one_line(text, kLongestDescription);
  cluster_.advance();
}

void Workers::finish(const proto::FinishRequest& request,
                     const Answer<proto::FinishReply>& answer) {
  WorkerState* const worker = find_worker(cluster_.state, request.worker());
  if (worker == nullptr) return answer(unknown_worker(request.worker()));
  const TimePoint now = Clock::now();
  worker->last_heard = now;
  takeover_.catch_up(*worker, request.left_generation());
  // A generation lost with an earlier coordinator has also ended for its workers.
  const bool is_late = cluster_.state.job.current.lost ||
                       (request.left_generation() > 0 &&
                        request.left_generation() < cluster_.state.job.current.number);
  if (is_late && request.outcome() != proto::OUTCOME_BAD_INPUT &&
      !cluster_.state.job.terminated_at) {
    return answer(finish_late(*worker, request));
  }
  if (request.has_progress() && !is_late) note_progress(*worker, request.progress(), now);
  proto::FinishReply reply;
  const bool has_looked = checks_.part() == proto::CHECK_PART_ALONE &&
                          request.outcome() == proto::OUTCOME_COMPLETED && !cluster_.state.job.stop;
  const bool pauses = has_looked || (request.outcome() == proto::OUTCOME_STOPPED &&
                                     may_pause(cluster_.state, *worker));
  reply.set_join_again(pauses || (request.outcome() == proto::OUTCOME_COMM_FAILED &&
                                  may_restart(cluster_.state, cluster_.run.config)));
  if (pauses) {
    worker_paused(*worker);
  } else if (reply.join_again()) {
    worker_left(cluster_.state, *worker, request.message(), now);
  } else {
    worker_reported(cluster_.state, *worker, request.outcome(), request.message(), now);
  }
  // The worker reports its end only once, and exits after the reply.
  takeover_.save_worker(*worker);
  answer(std::move(reply));
  cluster_.advance();
}

// The worker joins the next generation, even if it has completed its work, because it must take
// part in the steps that its peers repeat. The cause that ended the last generation is already
// known. A worker that failed by itself ends and is replaced.
proto::FinishReply Workers::finish_late(const WorkerState& worker,
                                        const proto::FinishRequest& request) {
  proto::FinishReply reply;
  reply.set_join_again(request.outcome() != proto::OUTCOME_FAILED);
  if (!reply.join_again()) {
    cluster_.terminal.note(name_of(worker) + ": " + one_line(request.message()),
                           Severity::kWarning);
  }
  return reply;
}

void Workers::set_value(const proto::SetValueRequest& request,
                        const Answer<proto::SetValueReply>& answer) {
  if (cluster_.closed) return answer(going_away());
  if (values_.set(request.key(), request.value())) return answer(proto::SetValueReply());
  answer(Refusal{.kind = Refusal::Kind::kInvalid,
                 .message = "key or value too large: a key may have at most " +
                            std::to_string(KeyValues::kMaxKey) +
                            " bytes, all keys and values together " +
                            std::to_string(KeyValues::kMaxBytes)});
}

void Workers::get_value(const proto::GetValueRequest& request,
                        const Answer<proto::GetValueReply>& answer, const Patience& patience) {
  if (cluster_.closed) return answer(going_away());
  const HealthLimits& limits = cluster_.run.config.limits;
  if (const WorkerState* const worker = worker_of_key(cluster_.state, request.key())) {
    proto::GetValueReply reply;
    reply.set_value(doing(*worker, Clock::now()));
    return answer(std::move(reply));
  }
  values_.get(request.key(), patience_of(patience, request.timeout_ms(), limits, Clock::now()),
              [answer](std::variant<std::string, Refusal> result) {
                if (auto* refusal = std::get_if<Refusal>(&result)) return answer(*refusal);
                proto::GetValueReply reply;
                reply.set_value(std::get<std::string>(std::move(result)));
                answer(std::move(reply));
              });
}

void Workers::get_values(const proto::GetValuesRequest& request,
                         Answer<proto::GetValuesReply> answer, const Patience& patience) {
  if (cluster_.closed) return answer(going_away());
  Patience least =
      patience_of(patience, request.timeout_ms(), cluster_.run.config.limits, Clock::now());
  const auto workers = static_cast<std::int64_t>(cluster_.state.job.current.workers.size());
  if (request.count() > workers) {
    return answer(Refusal{.kind = Refusal::Kind::kInvalid,
                          .message = "found " + std::to_string(request.count()) +
                                     " keys, expected at most one for each of the " +
                                     std::to_string(workers) + " workers"});
  }
  values_.get_all(request.prefix(), request.count(), std::move(least), std::move(answer));
}

void Workers::end_generation(const Refusal& why) {
  values_.clear(why);
  stragglers_ = {};
  proto::WorkerCommand command;
  command.set_superseded(true);
  command.set_why(cluster_.run.cause);
  cluster_.links.send_to_workers(command);
  cluster_.links.close_workers(why);
}

void Workers::ask_to_stop() const {
  proto::WorkerCommand command;
  command.set_stop(true);
  cluster_.links.send_to_workers(command);
}

void Workers::clear(const Refusal& why) {
  joins_.clear(why);
  values_.clear(why);
  stragglers_ = {};
}

void Workers::expire(TimePoint now) {
  tell_stragglers();
  values_.expire(now);
  joins_.expire(cluster_.state, now);
}

}  // namespace pfc
