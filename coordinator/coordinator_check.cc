// The coordinator's part for checks: jobs that train nothing, but test their hosts.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "common/version.h"
#include "coordinator/checks/check_decision.h"
#include "coordinator/coordinator.h"
#include "proto/check_text.h"

namespace pfc {
namespace {

constexpr std::size_t kMostKept = 8;  // recent reports
// Agents of a service run without a job too, so they register soon.
constexpr std::chrono::milliseconds kGatherOfService{20'000};

}  // namespace

/// Measures the network again, as part of the check.
void Coordinator::begin_check() {
  check_.emplace();
  cluster_.state.network = {};
  measurement_.reset();
  measured_.clear();
}

Decision Coordinator::decide_now() const {
  if (!check_) return decide(cluster_.state, cluster_.run.config, Clock::now());
  CheckLimits limits{.gather = cluster_.run.config.limits.start};
  if (cluster_.options.is_service) limits.gather = std::min(limits.gather, kGatherOfService);
  return decide_check(cluster_.state, cluster_.run.config, limits, Clock::now());
}

void Coordinator::note_check(const Action& action) {
  if (!check_) return;
  check_->note(cluster_.state);
  const bool leaves_some = std::holds_alternative<action::StartGeneration>(action) ||
                           std::holds_alternative<action::Terminate>(action);
  if (!leaves_some || cluster_.state.job.stop) return;
  const double seconds = seconds_since(cluster_.state.job.current.started_at);
  for (const WorkerState& worker : cluster_.state.job.current.workers) {
    if (worker.exit || worker.paused || worker.report) continue;
    check_->note_late(worker, seconds, cluster_.links.has_agent(worker.host));
  }
}

proto::CheckPart Coordinator::part_of_check() const {
  if (!check_) return proto::CHECK_PART_NONE;
  return cluster_.state.job.current.number == kCheckAlone ? proto::CHECK_PART_ALONE
                                                          : proto::CHECK_PART_TOGETHER;
}

/// Refuses a worker of another version. One without a version would train in a check.
std::optional<Refusal> Coordinator::wrong_version(const proto::JoinRequest& request,
                                                  const WorkerState& worker) const {
  const std::string& theirs = request.version();
  if (theirs == version() || (theirs.empty() && !check_)) return {};
  return Refusal{.kind = Refusal::Kind::kInvalid,
                 .message = "host " + worker.host + " has pfc-worker " +
                            (theirs.empty() ? "of an older version" : theirs) +
                            ", the coordinator " + version() + ": install the same version"};
}

namespace {

/// An unfinished check must not count as good.
void note_stop(proto::CheckReport& report, const std::string& reason) {
  proto::CheckFinding& stop = *report.mutable_findings()->Add();
  stop.set_rank(-1);
  stop.set_what("check");
  stop.set_found("stopped by " + reason + " before its end");
  stop.set_expected("a check that runs to its end");
  stop.set_remedy("check again");
  stop.set_verdict(proto::CHECK_STOPS);
}

}  // namespace

Verdict Coordinator::end_check() {
  check_->note(cluster_.state);
  proto::CheckReport report = check_->report(cluster_.state, refused_agents_, Clock::now());
  report.set_job_file(cluster_.run.job.file == "check"
                          ? ""
                          : cluster_.run.job.file.substr(sizeof("check of ") - 1));
  if (cluster_.state.job.stop) note_stop(report, cluster_.state.job.stop->reason);
  Verdict verdict{.kind = Verdict::Kind::kCompleted, .rank = {}, .message = check_sentence(report)};
  if (cluster_.state.job.stop) {
    verdict.kind = Verdict::Kind::kStopped;
    verdict.message = "check stopped by " + cluster_.state.job.stop->reason;
  } else if (!is_good(report)) {
    verdict.kind = Verdict::Kind::kFailed;
  }
  checks_.emplace_back(cluster_.run.job.id, std::move(report));
  while (checks_.size() > kMostKept) checks_.pop_front();
  return verdict;
}

const proto::CheckReport* Coordinator::last_check() const {
  return checks_.empty() ? nullptr : &checks_.back().second;
}

void Coordinator::check_result(const proto::CheckResultRequest& request,
                               const Answer<proto::CheckResultReply>& answer) const {
  proto::CheckResultReply reply;
  if (check_ && request.job() == cluster_.state.job.id) {
    reply.set_reason(cluster_.reason);
    return answer(std::move(reply));
  }
  const auto found =
      std::ranges::find(checks_, request.job(), &std::pair<std::string, proto::CheckReport>::first);
  if (found == checks_.end()) {
    return answer(Refusal{.kind = Refusal::Kind::kInvalid,
                          .message = "there is no check with this id: the coordinator keeps the "
                                     "last " +
                                     std::to_string(kMostKept) +
                                     ", and none of an earlier coordinator; check again"});
  }
  reply.set_over(true);
  *reply.mutable_report() = found->second;
  answer(std::move(reply));
}

void Coordinator::agent_was_refused(const std::string& host, const std::string& why) {
  boost::asio::post(timer_.get_executor(), [this, host, why] { note_refused_agent(host, why); });
}

void Coordinator::report_check(const proto::ReportCheckRequest& request,
                               const Answer<proto::ReportCheckReply>& answer) {
  using std::chrono::duration_cast, std::chrono::microseconds, std::chrono::system_clock;
  proto::ReportCheckReply reply;
  reply.set_wall_us(duration_cast<microseconds>(system_clock::now().time_since_epoch()).count());
  WorkerState* const worker = find_worker(cluster_.state, request.worker());
  if (worker == nullptr || !check_) {
    return answer(Refusal{.kind = Refusal::Kind::kOldGeneration,
                          .message = "this worker is of no check that runs"});
  }
  worker->last_heard = Clock::now();
  check_->add(*worker, request);
  answer(std::move(reply));
}

}  // namespace pfc
