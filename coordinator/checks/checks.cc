#include "coordinator/checks/checks.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/one_line.h"
#include "coordinator/checks/check_decision.h"
#include "proto/check_text.h"

namespace pfc {
namespace {

constexpr std::size_t kMostKept = 8;  // the latest reports
constexpr std::size_t kLongestRefusal = 300;
// Agents of a service run without a job too, so they register soon.
constexpr std::chrono::milliseconds kGatherOfService{20'000};

}  // namespace

Decision Checks::decide(TimePoint now) const {
  CheckLimits limits{.gather = cluster_.run.config.limits.start};
  if (cluster_.options.is_service) limits.gather = std::min(limits.gather, kGatherOfService);
  return decide_check(cluster_.state, cluster_.run.config, limits, now);
}

void Checks::note(const Action& action) {
  if (!cluster_.run.job.check) return;
  record_.note(cluster_.state);
  const bool leaves_some = std::holds_alternative<action::StartGeneration>(action) ||
                           std::holds_alternative<action::Terminate>(action);
  if (!leaves_some || cluster_.state.job.stop) return;
  const double seconds = seconds_since(cluster_.state.job.current.started_at);
  for (const WorkerState& worker : cluster_.state.job.current.workers) {
    if (worker.exit || worker.paused || worker.report) continue;
    record_.note_late(worker, seconds, cluster_.links.has_agent(worker.host));
  }
}

proto::CheckPart Checks::part() const {
  if (!cluster_.run.job.check) return proto::CHECK_PART_NONE;
  return cluster_.state.job.current.number == kCheckAlone ? proto::CHECK_PART_ALONE
                                                          : proto::CHECK_PART_TOGETHER;
}

namespace {

/// Adds a finding for a stopped check, because an unfinished check must not count as good.
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

Verdict Checks::end() {
  record_.note(cluster_.state);
  proto::CheckReport report = record_.report(cluster_.state, refused_agents_, Clock::now());
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
  reports_.emplace_back(cluster_.run.job.id, std::move(report));
  while (reports_.size() > kMostKept) reports_.pop_front();
  return verdict;
}

const proto::CheckReport* Checks::last() const {
  return reports_.empty() ? nullptr : &reports_.back().second;
}

void Checks::result(const proto::CheckResultRequest& request,
                    const Answer<proto::CheckResultReply>& answer) const {
  proto::CheckResultReply reply;
  if (cluster_.run.job.check && request.job() == cluster_.state.job.id) {
    reply.set_reason(cluster_.reason);
    return answer(std::move(reply));
  }
  const auto found = std::ranges::find(reports_, request.job(),
                                       &std::pair<std::string, proto::CheckReport>::first);
  if (found == reports_.end()) {
    return answer(
        Refusal{.kind = Refusal::Kind::kInvalid,
                .message = "no check has this id: the coordinator keeps the last " +
                           std::to_string(kMostKept) +
                           " checks, and no check of an earlier coordinator; run the check again"});
  }
  reply.set_over(true);
  *reply.mutable_report() = found->second;
  answer(std::move(reply));
}

void Checks::report(const proto::ReportCheckRequest& request,
                    const Answer<proto::ReportCheckReply>& answer) {
  using std::chrono::duration_cast, std::chrono::microseconds, std::chrono::system_clock;
  proto::ReportCheckReply reply;
  reply.set_wall_us(duration_cast<microseconds>(system_clock::now().time_since_epoch()).count());
  WorkerState* const worker = find_worker(cluster_.state, request.worker());
  if (worker == nullptr || !cluster_.run.job.check) {
    return answer(Refusal{.kind = Refusal::Kind::kOldGeneration,
                          .message = "this worker does not belong to a running check"});
  }
  worker->last_heard = Clock::now();
  record_.add(*worker, request);
  answer(std::move(reply));
}

void Checks::agent_refused(const std::string& host, const std::string& why) {
  if (refused_agents_.add(host, why, Clock::now())) {
    cluster_.terminal.note("an agent was refused: " + one_line(why, kLongestRefusal),
                           Severity::kWarning);
  }
  cluster_.state.refused_agent = one_line(refused_agents_.newest(), kLongestRefusal);
}

void Checks::agent_admitted(const std::vector<std::string>& names) {
  for (const std::string& name : names) refused_agents_.forget(name);
  cluster_.state.refused_agent = one_line(refused_agents_.newest(), kLongestRefusal);
}

}  // namespace pfc
