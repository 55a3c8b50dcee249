// Counts failures, and decides which slots are excluded. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "coordinator/rules/elastic/membership.h"

namespace pfc {

struct FailureCount {
  FailureHistory blame;
  RestartBudget budget;
  bool is_hopeless = false;  ///< the same crash, kSameCrashes times in a row
};

/// Counts the failure by slot, by host and in the budget. Excludes a slot or host at its limit if
/// the job can continue without it. REQUIRES: there is an incident; `cause` is the root cause.
FailureCount count_failure(const ClusterState& state, const ElasticConfig& config,
                           const Incident& cause, TimePoint now);

/// Returns the history in which the slot or host whose exclusion ends first is readmitted. Returns
/// nothing if even all slots would not be enough.
std::optional<FailureHistory> take_back(const ClusterState& state, const ElasticConfig& config,
                                        TimePoint now);

/// Returns the history with these hosts excluded.
FailureHistory leave_hosts_out(const ClusterState& state, std::span<const std::string> hosts,
                               const std::string& cause, TimePoint now);

}  // namespace pfc
