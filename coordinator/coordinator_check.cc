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
  run_.check.emplace();
  state_.network = {};
  measurement_.reset();
  measured_.clear();
}

Decision Coordinator::decide_now() const {
  if (!run_.check) return decide(state_, run_.config, Clock::now());
  CheckLimits limits{.gather = run_.config.limits.start};
  if (options_.is_service) limits.gather = std::min(limits.gather, kGatherOfService);
  return decide_check(state_, run_.config, limits, Clock::now());
}

void Coordinator::note_check(const Action& action) {
  if (!run_.check) return;
  run_.check->note(state_);
  const bool leaves_some = std::holds_alternative<action::StartGeneration>(action) ||
                           std::holds_alternative<action::Terminate>(action);
  if (!leaves_some || state_.job.stop) return;
  const double seconds = seconds_since(state_.job.current.started_at);
  for (const WorkerState& worker : state_.job.current.workers) {
    if (worker.exit || worker.paused || worker.report) continue;
    run_.check->note_late(worker, seconds, agents_.contains(worker.host));
  }
}

proto::CheckPart Coordinator::part_of_check() const {
  if (!run_.check) return proto::CHECK_PART_NONE;
  return state_.job.current.number == kCheckAlone ? proto::CHECK_PART_ALONE
                                                  : proto::CHECK_PART_TOGETHER;
}

/// Refuses a worker of another version. One without a version would train in a check.
std::optional<Refusal> Coordinator::wrong_version(const proto::JoinRequest& request,
                                                  const WorkerState& worker) const {
  const std::string& theirs = request.version();
  if (theirs == version() || (theirs.empty() && !run_.check)) return {};
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
  run_.check->note(state_);
  proto::CheckReport report = run_.check->report(state_, refused_agents_, Clock::now());
  report.set_job_file(run_.job.file == "check" ? ""
                                               : run_.job.file.substr(sizeof("check of ") - 1));
  if (state_.job.stop) note_stop(report, state_.job.stop->reason);
  Verdict verdict{.kind = Verdict::Kind::kCompleted, .rank = {}, .message = check_sentence(report)};
  if (state_.job.stop) {
    verdict.kind = Verdict::Kind::kStopped;
    verdict.message = "check stopped by " + state_.job.stop->reason;
  } else if (!is_good(report)) {
    verdict.kind = Verdict::Kind::kFailed;
  }
  checks_.emplace_back(run_.job.id, std::move(report));
  while (checks_.size() > kMostKept) checks_.pop_front();
  return verdict;
}

const proto::CheckReport* Coordinator::last_check() const {
  return checks_.empty() ? nullptr : &checks_.back().second;
}

void Coordinator::check_result(const proto::CheckResultRequest& request,
                               const Answer<proto::CheckResultReply>& answer) const {
  proto::CheckResultReply reply;
  if (run_.check && request.job() == state_.job.id) {
    reply.set_reason(reason_);
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
  WorkerState* const worker = find_worker(state_, request.worker());
  if (worker == nullptr || !run_.check) {
    return answer(Refusal{.kind = Refusal::Kind::kOldGeneration,
                          .message = "this worker is of no check that runs"});
  }
  worker->last_heard = Clock::now();
  run_.check->add(*worker, request);
  answer(std::move(reply));
}

}  // namespace pfc
