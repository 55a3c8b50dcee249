#include "coordinator/rules/decisions/decision.h"

namespace pfc {

Decision ask_and_blame(const ClusterState& state, std::vector<Incident> incidents, TimePoint now) {
  const std::vector<Rank> ranks = to_be_described(state, incidents);
  if (ranks.empty() && !awaits_description(state, incidents, now)) {
    return blame(std::move(incidents));
  }
  Decision decision{.reason = incidents.front().who + ": asking its agent what it does",
                    .actions = {}};
  for (const Rank rank : ranks) decision.actions.emplace_back(action::Describe{rank});
  return decision;
}

}  // namespace pfc
