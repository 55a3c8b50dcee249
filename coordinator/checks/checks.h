// Checks: jobs that train nothing, but test their hosts (docs/check.md).
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/checks/check_record.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/rules/verdict.h"

namespace pfc {

/// The running check, if the job is one, and the reports of recent checks. Used on the event loop
/// only.
class Checks {
 public:
  explicit Checks(Cluster& cluster) : cluster_(cluster) {}

  void begin() { record_ = {}; }
  /// Like pfc::decide(). REQUIRES: a check is running.
  [[nodiscard]] Decision decide(TimePoint now) const;
  /// If a check is running, records its findings before the action is applied.
  void note(const Action& action);
  /// Returns the part of the check that the next generation's workers run; none if the job is not a
  /// check.
  [[nodiscard]] proto::CheckPart part() const;
  void set_pairs(std::vector<proto::CheckPair> pairs) { record_.set_pairs(std::move(pairs)); }
  /// Stores the report. REQUIRES: a check is running.
  [[nodiscard]] Verdict end();

  /// Answers with the check's report, or what it waits for. Only recent checks are kept.
  void result(const proto::CheckResultRequest& request,
              const Answer<proto::CheckResultReply>& answer) const;
  /// Report of the last ended check; null if there is none.
  [[nodiscard]] const proto::CheckReport* last() const;
  /// Adds a worker's findings.
  void report(const proto::ReportCheckRequest& request,
              const Answer<proto::ReportCheckReply>& answer);

  /// Records an agent that was refused, and prints a warning if RefusedAgents::add() returns true.
  void agent_refused(const std::string& host, const std::string& why);
  /// Called when an agent was admitted that may have been refused under these names.
  void agent_admitted(const std::vector<std::string>& names);

 private:
  Cluster& cluster_;
  CheckRecord record_;                                              ///< record of the running check
  std::deque<std::pair<std::string, proto::CheckReport>> reports_;  ///< recent ones, by job id
  RefusedAgents refused_agents_;
};

}  // namespace pfc
