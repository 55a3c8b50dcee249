#include "coordinator/jobs/jobs.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <ranges>
#include <utility>

#include "common/config/strict_json.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/one_line.h"
#include "coordinator/jobs/job_status.h"

namespace pfc {
namespace {

constexpr std::size_t kLongestRequestFile = 500;  // bytes kept of a job file's path
constexpr std::size_t kLongestName = 100;
constexpr std::size_t kMostOverrides = 200;  // --set options kept of a job, for messages
constexpr std::ptrdiff_t kShownJobs = 16;
// Bytes of one reply, which limits the memory for slow readers.
constexpr std::size_t kLongestLogChunk = std::size_t{256} << 10;
constexpr std::chrono::seconds kLogTimeout{10};

Job submitted_job(const proto::SubmitRequest& request, int workers) {
  const std::string file = one_line(request.file(), kLongestRequestFile);
  JobOrigin origin(file.empty() ? "the job" : file);
  for (const std::string& each : request.overrides()) {
    if (origin.overrides.size() < kMostOverrides) origin.overrides.push_back(one_line(each));
  }
  Job job = make_job(parse_strict_json(request.job_json(), origin.file), origin, workers);
  job.name = one_line(request.name(), kLongestName);
  return job;
}

/// Returns the number of workers on all hosts; 0: unknown.
int workers_of_hosts(const ClusterState& state) {
  int workers = 0;
  for (const HostState& host : state.hosts) {
    if (host.slots == 0 || host.counts_gpus) return 0;  // depends on the device
    workers += host.slots;
  }
  return workers;
}

}  // namespace

Jobs::Jobs(Cluster& cluster)
    : cluster_(cluster),
      log_requests_({.timeout = kLogTimeout,
                     .too_many = {.kind = Refusal::Kind::kOldGeneration,
                                  .message = std::to_string(LogRequests::kMost) +
                                             " other readers are reading logs; try again"},
                     .late = {.kind = Refusal::Kind::kOldGeneration,
                              .message = "its agent has not sent the log in " +
                                         std::to_string(kLogTimeout.count()) + " s"}}) {}

std::optional<Refusal> Jobs::add(Job job) {
  cluster_.save_soon();
  return queue_.add(std::move(job));
}

void Jobs::submit(const proto::SubmitRequest& request, const std::string& submitter,
                  const Answer<proto::SubmitReply>& answer) {
  if (cluster_.closed || !ending_.empty()) return answer(going_away());
  const auto refuse = [&](Refusal why) {
    refused_ += 1;
    if (!request.check()) cluster_.metrics.count_job("refused");
    answer(std::move(why));
  };
  if (!cluster_.options.is_service) {
    return refuse({.kind = Refusal::Kind::kOldGeneration,
                   .message = "this coordinator runs a single job; to run jobs one after another, "
                              "start a coordinator without --config"});
  }
  const bool is_idle = cluster_.state.job.id.empty() && queue_.waiting().empty();
  if (request.check() && !is_idle) {
    return refuse({.kind = Refusal::Kind::kOldGeneration,
                   .message = cluster_.run.job.check
                                  ? "a check is running, and a second one would disturb it; wait "
                                    "for it, or end it with pfcctl stop"
                                  : "a job is running or waiting, and a check would disturb it; "
                                    "run the check when pfcctl queue shows no job"});
  }
  proto::SubmitReply reply;
  std::string title;
  try {
    Job job = submitted_job(request, workers_of_hosts(cluster_.state));
    if (request.check()) become_check(job, request.without_job());
    job.submitter = submitter;
    reply.set_job_id(job.id);
    for (const std::string& warning : job.warnings) reply.add_warnings(warning);
    title = title_of(job);
    if (auto full = add(std::move(job))) return refuse(std::move(*full));
  } catch (const InputError& error) {
    return refuse({.kind = Refusal::Kind::kInvalid, .message = error.what()});
  }
  const auto before = std::ssize(queue_.waiting()) - (cluster_.state.job.id.empty() ? 1 : 0);
  reply.set_before(static_cast<int>(before));
  cluster_.terminal.note(title + " was submitted" +
                         (before == 0 ? "" : "; before it: " + counted(before, "job")));
  cluster_.save_now();  // the reply promises that the job is saved
  answer(std::move(reply));
  cluster_.advance();
}

std::optional<Job> Jobs::take_next() {
  const bool is_check = !queue_.waiting().empty() && queue_.waiting().front().check;
  if (cluster_.options.is_service && !is_check) {
    if (queue_.waiting().empty()) {
      cluster_.reason = "no job is waiting";
      return {};
    }
    if (const std::string awaited = awaited_hosts(); !awaited.empty()) {
      cluster_.reason =
          counted(std::ssize(queue_.waiting()), "job") + " in the queue; waiting for " + awaited;
      return {};
    }
  }
  return queue_.take();
}

void Jobs::remember(const Verdict& verdict) {
  was_forced_ = !ending_.empty() && verdict.kind == Verdict::Kind::kFailed;
  proto::EndedJob ended = ended_job(cluster_.run.job, verdict.kind, verdict.message);
  ended.mutable_status()->set_started_ms(to_ms(cluster_.run.started));
  ended.set_workers(static_cast<int>(cluster_.state.job.current.workers.size()));
  for (const HostState& host : cluster_.state.hosts) ended.add_first_ranks(host.first_rank);
  queue_.remember(std::move(ended));
}

Verdict Jobs::end_of_service() const {
  return {.kind = was_forced_ ? Verdict::Kind::kFailed : Verdict::Kind::kStopped,
          .rank = {},
          .message =
              "service ended by " + ending_ + (was_forced_ ? ", and its last job has failed" : "")};
}

std::string Jobs::awaited_hosts() const {
  std::vector<std::string> silent, leaving;
  for (const HostState& host : cluster_.state.hosts) {
    const bool is_own = host.local && !cluster_.options.local_agent_id.empty();
    if (host.leaving) {
      leaving.push_back("host " + host.name + ", which was drained: start " +
                        (is_own ? "this service" : "its pfc-agent") + " again");
    } else if (!host.registered || !cluster_.links.has_agent(host.name)) {
      silent.push_back(host.name);
    }
  }
  std::string text = silent.empty() ? "" : listed(silent) + " to register";
  if (leaving.empty()) return text;
  return text + (text.empty() ? "" : ", and for ") + listed(leaving);
}

void Jobs::stop_running(const std::string& reason, bool urgent) {
  std::optional<StopRequest>& stop = cluster_.state.job.stop;
  if (!stop) stop = StopRequest{.reason = one_line(reason), .urgent = urgent, .at = Clock::now()};
  stop->urgent = stop->urgent || urgent;
}

void Jobs::stop_all(const std::string& reason, bool urgent) {
  if (cluster_.options.is_service && ending_.empty()) {
    ending_ = one_line(reason);
    tell_waiting();
  }
  if (!cluster_.state.job.id.empty()) stop_running(reason, urgent);
  cluster_.save_now();
  cluster_.advance();
}

void Jobs::tell_waiting() {
  const auto count = std::ssize(queue_.waiting());
  if (count == 0) return;
  std::string titles;
  for (const Job& job : queue_.waiting() | std::views::take(kShownJobs)) {
    titles += (titles.empty() ? "" : ", ") + title_of(job);
  }
  if (count > kShownJobs) titles += ", ...";
  cluster_.terminal.note("the service ends; " + counted(count, "job") +
                             (count == 1 ? " stays" : " stay") +
                             " in the queue; the same command resumes it: " + titles,
                         Severity::kWarning);
}

void Jobs::stop(const proto::StopRequest& request, const Answer<proto::StopReply>& answer) {
  Refusal why;
  const bool may_mean_it =
      !request.job().empty() && cluster_.state.job.id.starts_with(request.job());
  if (!cluster_.options.is_service && !may_mean_it &&
      !of_this_job(request.job(), cluster_.fence(), why)) {
    return answer(why);
  }
  const auto found = find(request.job());
  if (const auto* refusal = std::get_if<Refusal>(&found)) return answer(*refusal);
  const std::string id = std::get<std::string>(found);
  proto::StopReply reply;
  reply.set_job_id(id);
  if (id == cluster_.state.job.id) {
    stop_running(request.reason(), request.urgent());
  } else if (const auto job = queue_.take(id)) {
    reply.set_was_waiting(true);
    if (!job->check) cluster_.metrics.count_job("stopped");
    queue_.remember(ended_job(*job, Verdict::Kind::kStopped,
                              "removed from the queue by " + one_line(request.reason(), 100)));
    cluster_.terminal.note(title_of(*job) + ": removed from the queue");
  } else {
    return answer(
        Refusal{.kind = Refusal::Kind::kInvalid, .message = "job " + id + " has ended already"});
  }
  cluster_.save_now();
  answer(std::move(reply));
  cluster_.advance();
}

std::variant<std::string, Refusal> Jobs::find(const std::string& begin) const {
  std::vector<std::string> ids;
  const auto look = [&](const std::string& id) {
    if (!id.empty() && id.starts_with(begin)) ids.push_back(id);
  };
  look(cluster_.state.job.id);
  for (const Job& job : queue_.waiting()) look(job.id);
  for (const proto::EndedJob& job : queue_.ended().jobs()) look(job.status().job_id());
  if (!begin.empty() && ids.size() == 1) return ids.front();
  std::string what =
      cluster_.state.job.id.empty() ? "no job is running, and none was named" : "no job was named";
  if (!begin.empty()) {
    what = ids.empty() ? "no job has an id that begins"
                       : std::to_string(ids.size()) + " jobs have an id that begins";
    what += " with " + one_line(begin, 40);
  }
  return Refusal{.kind = Refusal::Kind::kInvalid,
                 .message = what + "; pfcctl queue lists the jobs"};
}

std::optional<std::string> Jobs::submitter_of(const std::string& begin) const {
  const auto found = find(begin.empty() ? last() : begin);
  const auto* const id = std::get_if<std::string>(&found);
  if (id == nullptr) return {};
  if (*id == cluster_.state.job.id) return cluster_.run.job.submitter;
  const auto waiting = std::ranges::find(queue_.waiting(), *id, &Job::id);
  if (waiting != queue_.waiting().end()) return waiting->submitter;
  return queue_.find_ended(*id)->status().submitter();
}

proto::QueueReply Jobs::list() const {
  proto::QueueReply reply;
  for (const proto::EndedJob& job : queue_.ended().jobs()) *reply.add_jobs() = job.status();
  if (cluster_.state.job.id.empty()) {
    reply.set_reason(cluster_.reason);
  } else {
    *reply.add_jobs() = status_of_running(cluster_.run.job, cluster_.run.started, cluster_.reason);
  }
  for (const Job& job : queue_.waiting()) *reply.add_jobs() = status_of_waiting(job);
  reply.set_refused(refused_);
  return reply;
}

bool Jobs::has_no_worker_yet(const std::string& job_id) const {
  if (job_id == cluster_.state.job.id) return cluster_.state.job.current.workers.empty();
  return std::ranges::find(queue_.waiting(), job_id, &Job::id) != queue_.waiting().end();
}

std::string Jobs::host_of(const std::string& job_id, Rank rank) {
  if (job_id == cluster_.state.job.id) {
    const WorkerState* const worker = find_worker(cluster_.state, rank);
    return worker == nullptr ? "" : worker->host;
  }
  const proto::EndedJob* const job = queue_.find_ended(job_id);
  if (job == nullptr || rank < 0 || rank >= job->workers()) return {};
  const auto after = std::ranges::upper_bound(job->first_ranks(), rank);
  return cluster_.state.hosts.at(after - job->first_ranks().begin() - 1).name;
}

std::string Jobs::last() const {
  const auto& ended = queue_.ended().jobs();
  if (!cluster_.state.job.id.empty() || ended.empty()) return cluster_.state.job.id;
  return ended.rbegin()->status().job_id();
}

void Jobs::read_log(const proto::LogsRequest& request, const Answer<proto::LogsReply>& answer) {
  if (cluster_.closed) return answer(going_away());
  const auto found = find(request.job().empty() ? last() : request.job());
  if (const auto* refusal = std::get_if<Refusal>(&found)) return answer(*refusal);
  const std::string id = std::get<std::string>(found);
  if (has_no_worker_yet(id)) {
    proto::LogsReply nothing;
    nothing.set_job_id(id);
    *nothing.mutable_next() = request.from();
    return answer(std::move(nothing));
  }
  const proto::EndedJob* const ended = queue_.find_ended(id);
  if (ended != nullptr && ended->status().started_ms() == 0) {
    return answer(Refusal{
        .kind = Refusal::Kind::kInvalid,
        .message = "job " + id + " was removed from the queue and never ran; it has no log"});
  }
  const std::string host = host_of(id, request.rank());
  if (cluster_.links.has_agent(host)) return ask_for_log(id, host, request, answer);
  answer(Refusal{.kind = Refusal::Kind::kInvalid,
                 .message = host.empty()
                                ? "job " + id + " has no rank " + std::to_string(request.rank())
                                : "host " + host + ", which has the log, has no connected agent"});
}

void Jobs::ask_for_log(const std::string& job_id, const std::string& host,
                       const proto::LogsRequest& request, const Answer<proto::LogsReply>& answer) {
  const bool over = job_id != cluster_.state.job.id;
  const std::int64_t number = log_requests_.wait(
      host,
      [answer, job_id, host, over](const std::variant<proto::LogChunk, Refusal>& result) {
        if (const auto* refusal = std::get_if<Refusal>(&result)) return answer(*refusal);
        const auto& chunk = std::get<proto::LogChunk>(result);
        if (!chunk.problem().empty() || chunk.text().size() > kLongestLogChunk) {
          return answer(Refusal{
              .kind = Refusal::Kind::kInvalid,
              .message =
                  "host " + host + ": " +
                  (chunk.problem().empty()
                       ? "its agent sent " + std::to_string(chunk.text().size()) +
                             " bytes of the log, expected at most " +
                             std::to_string(kLongestLogChunk) + "; read the file on that host"
                       : one_line(chunk.problem()))});
        }
        proto::LogsReply reply;
        reply.set_job_id(job_id);
        reply.set_text(chunk.text());
        *reply.mutable_next() = chunk.next();
        reply.set_skipped(chunk.skipped());
        reply.set_over(over);
        answer(std::move(reply));
      },
      Clock::now());
  if (number == 0) return;
  proto::AgentCommand command;
  proto::ReadLog* const read = command.mutable_read_log();
  read->set_request(number);
  read->set_job_id(job_id);
  read->set_rank(request.rank());
  *read->mutable_from() = request.from();
  read->set_bytes(kLongestLogChunk);
  cluster_.links.send(host, std::move(command));
}

}  // namespace pfc
