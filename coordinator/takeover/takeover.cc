#include "coordinator/takeover/takeover.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "common/counted.h"
#include "coordinator/journal/journal_keys.h"
#include "coordinator/journal/saved_state.h"

namespace pfc {
namespace {

using namespace journal_keys;
using std::chrono::milliseconds;

// Enough for a working disk; a job does not wait longer for a broken one.
constexpr milliseconds kWriteLimit{1'000};
// Pause between saves of progress and metrics. They are also saved before a page shows them.
constexpr milliseconds kProgressPause{5'000};
// Saving many workers takes time: use at most 1/200 of a core.
constexpr int kProgressPart = 200;

// Generations that a journal may lack because the disk was full.
constexpr Generation kMostUnknown = 1'000;

std::string journal_key(const char* prefix, Rank rank) { return prefix + std::to_string(rank); }

std::string takeover_time_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", seconds);
  return text;
}

}  // namespace

// Saving.

void Takeover::keep(Journal& journal, const proto::SavedCoordinator& own) {
  journal_ = &journal;
  const std::int64_t pid = own_.local_agent_pid();
  const int takeovers = own_.takeovers();
  const std::int64_t taken_over = own_.taken_over_ms();
  own_ = own;
  own_.set_takeovers(takeovers);
  own_.set_taken_over_ms(taken_over);
  if (own_.local_agent_pid() == 0) own_.set_local_agent_pid(pid);
  save(true);
  save_now();
}

void Takeover::local_agent_runs(pid_t pid, const std::string& serial) {
  own_.set_local_agent_pid(pid);
  own_.set_local_agent_serial(serial);
  save_now();
}

void Takeover::save_now() {
  if (journal_ == nullptr) return;
  save(false);
  journal_->settle(kWriteLimit);
}

void Takeover::save_if_due(TimePoint now) {
  const bool is_due = now - progress_saved_ >=
                      std::max<Clock::duration>(kProgressPause, kProgressPart * progress_took_);
  if (journal_ != nullptr && (unsaved_ || is_due)) save(is_due);
}

void Takeover::save(bool with_progress) {
  if (journal_ == nullptr || cluster_.over) return;
  {
    const Journal::Change change(*journal_);
    own_.set_refused_jobs(jobs_.refused());
    journal_->put(kOwn, own_.SerializeAsString());
    for (const HostState& host : cluster_.state.hosts) {
      journal_->put(kHost + host.name, saved(host));
    }
    save_job();
    save_queue();
    if (with_progress) save_progress();
  }
  unsaved_ = false;
  // Values shown on a page must survive a takeover.
  if (with_progress) journal_->settle(kWriteLimit);
}

void Takeover::save_job() {
  std::set<std::string> workers, progress;
  if (cluster_.state.job.id.empty() || cluster_.run.job.check) {  // a check is not resumed
    journal_->erase(kRun);
    journal_->erase(kJob);
  } else {
    save_run();
    if (saved_job_ != cluster_.run.job.id) journal_->put(kJob, saved(cluster_.run.job));
  }
  saved_job_ = cluster_.run.job.check ? "" : cluster_.state.job.id;
  for (const WorkerState& worker : cluster_.state.job.current.workers) {
    if (cluster_.run.job.check) break;
    const std::string key = journal_key(kWorker, worker.rank);
    journal_->put(key, saved(worker));
    workers.insert(key);
    progress.insert(journal_key(kProgress, worker.rank));
  }
  journal_->keep_only(kWorker, workers);
  journal_->keep_only(kProgress, progress);
}

void Takeover::save_run() {
  journal_->put(kRun, saved_run(cluster_.state, cluster_.run, Clock::now(), wall_now()));
}

void Takeover::save_worker(const WorkerState& worker) {
  if (journal_ == nullptr || cluster_.over || cluster_.run.job.check) return;
  save_soon();  // everything else is saved a moment later
  {
    const Journal::Change change(*journal_);
    save_run();  // it contains the incidents; the worker's change may have added one
    journal_->put(journal_key(kWorker, worker.rank), saved(worker));
  }
  journal_->settle(kWriteLimit);
}

void Takeover::save_queue() {
  proto::SavedQueue queue;
  std::set<std::string> waiting, keys;
  for (const Job& job : jobs_.queue().waiting()) {
    queue.add_ids(job.id);
    waiting.insert(job.id);
    keys.insert(kQueued + job.id);
    if (!queued_.contains(job.id)) journal_->put(kQueued + job.id, saved(job));
  }
  queued_ = std::move(waiting);
  journal_->keep_only(kQueued, keys);
  journal_->put(kQueue, queue.SerializeAsString());
  journal_->put(kEnded, jobs_.queue().ended().SerializeAsString());
}

void Takeover::save_progress() {
  progress_saved_ = Clock::now();
  // Labels are a map, whose order protobuf does not define, so equal metrics may differ as text.
  journal_->put(kMetrics, cluster_.metrics.saved().SerializeAsString());
  for (const WorkerState& worker : cluster_.state.job.current.workers) {
    if (cluster_.run.job.check) break;
    journal_->put(journal_key(kProgress, worker.rank), worker.progress.SerializeAsString());
  }
  progress_took_ = Clock::now() - progress_saved_;
}

void Takeover::remove_journal() {
  if (journal_ != nullptr) journal_->remove();
}

void Takeover::add_to(proto::StatusReply& status) const {
  status.set_takeovers(own_.takeovers());
  status.set_taken_over_ms(own_.taken_over_ms());
  status.set_takeover_seconds(seconds_);
}

// Taking over.

void Takeover::begin(const JournalValues& journal) {
  const TimePoint now = Clock::now();
  own_ = read<proto::SavedCoordinator>(journal, kOwn);
  own_.set_takeovers(own_.takeovers() + 1);
  own_.set_taken_over_ms(to_ms(wall_now()));
  jobs_.set_refused(own_.refused_jobs());
  // Agents and workers have as much time as hosts have to register.
  const HealthLimits& limits = cluster_.options.rendezvous.limits;
  const TimePoint heard = now + std::max(limits.start - limits.silence, milliseconds{0});
  for (HostState& host : cluster_.state.hosts) {
    restore(host, value_at(journal, kHost + host.name), heard);
  }
  const auto queue = read<proto::SavedQueue>(journal, kQueue);  // must live as long as the loop
  for (const std::string& id : queue.ids()) {
    Job job = job_from(value_at(journal, kQueued + id));
    if (!job.id.empty()) static_cast<void>(jobs_.queue().add(std::move(job)));
  }
  jobs_.queue().restore(read<proto::EndedJobs>(journal, kEnded));
  cluster_.metrics.restore(read<proto::SavedMetrics>(journal, kMetrics), now);
  if (journal.contains(kRun)) begin_job(journal, heard);
  const std::string& agent = cluster_.options.local_agent_id;
  const auto local = std::ranges::find(cluster_.state.hosts, true, &HostState::local);
  if (!agent.empty() && local != cluster_.state.hosts.end() && !local->agent_id.empty() &&
      local->agent_id != agent) {
    lose_local_agent(now);
  }
  cluster_.history.take_over(cluster_.state);
  awaited_since_ = now;
}

void Takeover::begin_job(const JournalValues& journal, TimePoint heard) {
  const TimePoint now = Clock::now();
  cluster_.run = {.job = job_from(value_at(journal, kJob)), .config = cluster_.options.rendezvous};
  restore_run(cluster_.state, cluster_.run, value_at(journal, kRun), now, wall_now());
  cluster_.state.job.device = cluster_.run.job.device;
  std::vector<WorkerState> workers;
  for (Rank rank = 0; journal.contains(journal_key(kWorker, rank)); ++rank) {
    workers.push_back(worker_from(value_at(journal, journal_key(kWorker, rank)), heard));
    workers.back().progress = read<proto::Progress>(journal, journal_key(kProgress, rank));
  }
  restore(cluster_.state.job.current, std::move(workers));
  cluster_.run.progress.update(cluster_.state, now);
}

void Takeover::lose_local_agent(TimePoint now) {
  for (HostState& host : cluster_.state.hosts) {
    if (!host.local) continue;
    host.registered = false;
    host.last_heard = now;
    for (WorkerState& worker : cluster_.state.job.current.workers) {
      if (worker.host == host.name && !worker.exit) worker.exit = ProcessExit{.signal = SIGKILL};
    }
  }
  if (cluster_.state.job.current.number > 0) generation_lost(cluster_.state);
}

void Takeover::catch_up(const WorkerState& worker, Generation left) {
  GenerationState& current = cluster_.state.job.current;
  const bool is_known = left < current.number || (left == current.number && worker.joined);
  if (is_known || left > current.number + kMostUnknown) return;
  current.number = left;
  current.lost = true;
  save_now();
}

void Takeover::update(TimePoint now) {
  if (!awaited_since_ || seconds_ >= 0) return;
  // Hosts that were lost before are not awaited.
  const bool has_agents = std::ranges::all_of(cluster_.state.hosts, [&](const HostState& host) {
    return !host.registered || cluster_.links.has_agent(host.name);
  });
  const bool has_workers =
      std::ranges::all_of(cluster_.state.job.current.workers, [&](const WorkerState& worker) {
        return worker.report || worker.exit || cluster_.links.has_worker(worker.rank);
      });
  if (!has_agents || !has_workers) return;
  seconds_ = seconds_since(*awaited_since_, now);
  const std::string agents =
      counted(static_cast<std::ptrdiff_t>(cluster_.links.agent_count()), "agent") + " and ";
  const auto all = std::ssize(cluster_.state.job.current.workers);
  const auto back =
      all - std::ranges::count_if(cluster_.state.job.current.workers, [&](const auto& worker) {
        return worker.exit && !cluster_.links.has_worker(worker.rank);
      });
  const std::string text =
      (back == all ? "all " + agents + counted(all, "worker")
                   : agents + std::to_string(back) + " of " + counted(all, "worker")) +
      " are back after " + takeover_time_text(seconds_);
  cluster_.terminal.note(text);
  cluster_.history.tell(ClusterEvent::Kind::kTakeover, Severity::kNote, text);
}

}  // namespace pfc
