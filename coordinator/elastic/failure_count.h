// What a failure changes in a job's blame and restart budget, and which slots it does without from
// then on. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "coordinator/elastic/membership.h"

namespace pfc {

struct FailureCount {
  FailureHistory blame;
  RestartBudget budget;
  bool is_hopeless = false;  ///< the same crash, kSameCrashes times at the same place
};

/// Counts what has ended the generation: by slot, by host and against the budget. A slot or host
/// that has reached its limit is left out where the job goes on without it. REQUIRES: there is an
/// incident; `cause` is the root of them.
FailureCount count_failure(const ClusterState& state, const ElasticConfig& config,
                           const Incident& cause, TimePoint now);

/// With one slot or host less that is left out: the one that was so for the longest time. Empty:
/// with all of them there would not be enough workers either.
std::optional<FailureHistory> take_back(const ClusterState& state, const ElasticConfig& config,
                                        TimePoint now);

/// With these hosts left out.
FailureHistory leave_hosts_out(const ClusterState& state, std::span<const std::string> hosts,
                               const std::string& cause, TimePoint now);

}  // namespace pfc
