#include "coordinator/checks/check_record.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/one_line.h"
#include "common/version.h"
#include "coordinator/checks/check_decision.h"
#include "coordinator/checks/judge.h"
#include "coordinator/rules/health.h"

namespace pfc {
namespace {

constexpr std::size_t kLongestCheckText = 2'000;
constexpr std::size_t kLongestCheckName = 200;
// A refused agent retries at least every 10 s.
constexpr std::chrono::seconds kRefusedLately{60};

proto::CheckFinding finding(const std::string& host, Rank rank, const std::string& what,
                            const std::string& found, const std::string& expected,
                            const std::string& remedy, proto::CheckVerdict verdict) {
  proto::CheckFinding added;
  added.set_host(host);
  added.set_rank(rank);
  added.set_what(what);
  added.set_found(one_line(found, kLongestCheckText));
  added.set_expected(expected);
  added.set_remedy(one_line(remedy, kLongestCheckText));
  added.set_verdict(verdict);
  return added;
}

/// Returns the finding with sanitized texts, attributed to this worker.
proto::CheckFinding admitted_finding(const WorkerState& worker, proto::CheckFinding told) {
  told.set_host(worker.host);
  told.set_rank(told.rank() < 0 ? -1 : worker.rank);
  told.set_what(one_line(told.what(), kLongestCheckName));
  told.set_unit(one_line(told.unit(), kLongestCheckName));
  told.set_found(one_line(told.found(), kLongestCheckText));
  told.set_expected(one_line(told.expected(), kLongestCheckText));
  told.set_remedy(one_line(told.remedy(), kLongestCheckText));
  return told;
}

std::string host_of_incident(const ClusterState& state, const Incident& incident) {
  if (!incident.host.empty() || !incident.rank) return incident.host;
  const auto rank = static_cast<std::size_t>(*incident.rank);
  const auto& workers = state.job.current.workers;
  return rank < workers.size() ? workers[rank].host : "";
}

/// Compares names of a host. Equal first labels are enough.
bool may_be(const std::string& agent, const std::string& host) {
  return agent == host || agent.substr(0, agent.find('.')) == host.substr(0, host.find('.'));
}

}  // namespace

bool RefusedAgents::add(const std::string& host, const std::string& why, TimePoint now) {
  const std::string name = one_line(host, kLongestCheckName);
  if (last_.size() >= kMost && !last_.contains(name)) return false;
  const bool is_first = !last_.contains(name);
  Refused& last = last_[name];
  std::string text = one_line(why, kLongestCheckText);
  const bool is_news = is_first || (last.why != text && now - last.at > kRefusedLately);
  last = {.why = std::move(text), .at = now};
  return is_news;
}

std::string RefusedAgents::newest() const {
  const auto found =
      std::ranges::max_element(last_, {}, [](const auto& each) { return each.second.at; });
  return found == last_.end() ? "" : found->second.why;
}

void CheckRecord::add(const WorkerState& worker, const proto::ReportCheckRequest& request) {
  const int most = std::min<int>(request.findings_size(), kMostOfRequest);
  for (int i = 0; i < most; ++i) {
    if (findings_.size() >= kMostFindings) {
      dropped_ = true;
      return;
    }
    findings_.push_back(admitted_finding(worker, request.findings(i)));
  }
}

void CheckRecord::note(const ClusterState& state) {
  const GenerationState& current = state.job.current;
  for (std::size_t i = 0; i < current.incidents.size(); ++i) {
    if (!noted_.insert({current.number, i}).second) continue;
    const Incident& incident = current.incidents[i];
    findings_.push_back(
        finding(host_of_incident(state, incident), incident.rank.value_or(-1), "worker",
                incident.what, "a worker that runs to the end of the check",
                "if this text does not explain why, see pfcctl logs, and dmesg on this host",
                proto::CHECK_STOPS));
  }
}

void CheckRecord::note_late(const WorkerState& worker, double seconds, bool agent_is_there) {
  if (!agent_is_there) {
    findings_.push_back(finding(
        worker.host, worker.rank, "agent", "the agent has disconnected; its worker sent no result",
        "an agent that stays connected until the check ends",
        "see the agent's log for why it ended, start it again, and check again",
        proto::CHECK_STOPS));
    return;
  }
  const std::string& doing = worker.progress.phase();
  findings_.push_back(
      finding(worker.host, worker.rank, "worker",
              "has not finished its own tests after " + std::to_string(static_cast<int>(seconds)) +
                  " s" + (doing.empty() ? "" : "; last phase: " + doing),
              "a minute at most",
              "check the disk or mount that the worker reads, and dmesg on this host: a "
              "hanging mount would stop a job too",
              proto::CHECK_STOPS));
}

void CheckRecord::add_missing_hosts(const ClusterState& state, const RefusedAgents& refused,
                                    TimePoint now,
                                    std::vector<proto::CheckFinding>& findings) const {
  std::set<std::string> explained;
  for (const HostState& host : state.hosts) {
    const auto found = std::ranges::find_if(refused.last(), [&](const auto& each) {
      return may_be(each.first, host.name) || each.first == host.peer;
    });
    const bool was_refused = found != refused.last().end();
    if (was_refused) explained.insert(found->first);
    if (host.registered && host.leaving) {
      findings.push_back(
          finding(host.name, -1, "agent", "the host is being drained: " + host.leaving->reason,
                  "an agent that accepts work",
                  "start the agent of this host again, or check without it", proto::CHECK_STOPS));
      continue;
    }
    if (host.registered) {
      // A second agent claims this host, for example because two machines have the same name. It
      // retries, so without a recent refusal it has ended.
      if (!was_refused || now - found->second.at > kRefusedLately) continue;
      findings.push_back(finding(
          host.name, -1, "agent", "another agent was refused: " + found->second.why, "one agent",
          "end one of the two, or give each its own --host", proto::CHECK_STOPS));
      continue;
    }
    findings.push_back(
        finding(host.name, -1, "agent",
                was_refused ? "refused: " + found->second.why : "none has registered",
                "an agent of version " + std::string(version()),
                was_refused ? "do what the reason says, and start the agent of this host again"
                            : agent_advice(state.address, host) +
                                  "; if it runs already, open this port in the firewalls",
                proto::CHECK_STOPS));
  }
  for (const auto& [host, last] : refused.last()) {
    if (explained.contains(host)) continue;
    findings.push_back(finding(host, -1, "agent", "refused: " + last.why, "a host of --hosts",
                               "end that agent, or add its host to --hosts", proto::CHECK_NOTE));
  }
}

proto::CheckReport CheckRecord::report(const ClusterState& state, const RefusedAgents& refused,
                                       TimePoint now) const {
  std::vector<proto::CheckFinding> findings = findings_;
  compare(findings, {{"pfc-worker", std::string("version ") + version()}});
  add_missing_hosts(state, refused, now, findings);
  for (proto::CheckFinding& each : judge_pairs(pairs_)) findings.push_back(std::move(each));
  if (state.network.failed && pairs_.empty()) {
    findings.push_back(finding("", -1, "network", state.network.text, "hosts that reach each other",
                               "see docs/network.md", proto::CHECK_STOPS));
  }
  if (dropped_) {
    findings.push_back(finding("", -1, "check", "more findings than can be stored", "",
                               "fix what is listed, and check again", proto::CHECK_NOTE));
  }
  sort_by_verdict(findings);
  proto::CheckReport report;
  for (proto::CheckFinding& each : findings) *report.add_findings() = std::move(each);
  for (const proto::CheckPair& pair : pairs_) *report.add_pairs() = pair;
  report.set_network(state.network.text);
  report.set_hosts(static_cast<int>(state.hosts.size()));
  report.set_workers(static_cast<int>(
      std::ranges::count_if(state.job.current.workers, [](const WorkerState& worker) {
        return worker.report && worker.report->outcome == proto::OUTCOME_COMPLETED;
      })));
  report.set_seconds(seconds_since(state.job.started_at, now));
  report.set_version(version());
  return report;
}

}  // namespace pfc
