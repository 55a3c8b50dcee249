// What the coordinator may do next: the actions that decide() chooses from, and the settings that
// it depends on.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/cluster_state.h"
#include "coordinator/elastic/elastic_config.h"
#include "coordinator/elastic/membership.h"
#include "coordinator/health.h"

namespace pfc {

struct RendezvousConfig {
  HealthLimits limits;
  ElasticConfig elastic;
  int max_restarts = 0;                        ///< that have not come back with progress
  std::chrono::milliseconds grace{5'000};      ///< for peers to notice a failure by themselves
  std::chrono::milliseconds stop{60'000};      ///< for workers to write a checkpoint and end
  std::chrono::milliseconds terminate{5'000};  ///< between SIGTERM and SIGKILL
  std::chrono::milliseconds kill{5'000};       ///< from SIGKILL to the agents' reports
};

namespace action {
/// Something has gone wrong: the generation is over.
struct Blame {
  Incident incident;
};
/// The failure counts in the job's blame and budget.
struct Count {
  FailureHistory blame;
  RestartBudget budget;
};
/// Slots or hosts are left out, or taken back, although nothing has failed now.
struct ChangeBlame {
  FailureHistory blame;
};
/// Find out how the hosts with these agents reach each other, and which network is the best. By
/// host; an empty one does not take part.
struct MeasureNetwork {
  std::vector<std::string> agents;
};
/// The hosts without a worker whose agents are silent have to register again.
struct ReleaseHosts {
  std::vector<std::string> hosts;
};
/// The workers are to write a checkpoint, and to go on in another generation.
struct BeginRegroup {
  std::string reason;
  std::chrono::milliseconds within;
};
/// The job ends after a checkpoint, because it cannot go on without a host that must be free.
struct StopForHost {
  StopRequest request;
};
/// The next generation begins.
struct StartGeneration {
  std::vector<Member> members;
  std::optional<Incident> cause;  ///< the failure that has ended the last one; empty: none has
  std::string why;                ///< the change that was planned; empty: there is a cause, or it
                                  ///< is the first generation
};
/// Ask every worker to write a checkpoint and end.
struct AskToStop {};
/// Send SIGTERM to the workers that still run.
struct Terminate {};
/// Send SIGKILL to the workers that still run.
struct Kill {};
/// The job is over; verdict() says how.
struct Finish {};
/// Ask the worker's agent what it does: it will be blamed.
struct Describe {
  Rank rank = 0;
};
}  // namespace action

using Action = std::variant<action::Blame, action::StartGeneration, action::AskToStop,
                            action::Terminate, action::Kill, action::Finish, action::MeasureNetwork,
                            action::Count, action::ChangeBlame, action::ReleaseHosts,
                            action::BeginRegroup, action::StopForHost, action::Describe>;

struct Decision {
  std::string reason;           ///< for a person; changes only when something has changed
  std::vector<Action> actions;  ///< in order; none: there is nothing to do, `reason` is awaited
};

/// Nothing is to be done before something happens.
inline Decision wait_for(std::string reason) {
  return {.reason = std::move(reason), .actions = {}};
}

inline Decision act(Action action, std::string reason) {
  return {.reason = std::move(reason), .actions = {std::move(action)}};
}

/// What the coordinator itself has found. REQUIRES: incidents is not empty.
inline Decision blame(std::vector<Incident> incidents) {
  Decision decision{.reason = incidents.front().text(), .actions = {}};
  for (Incident& incident : incidents) decision.actions.emplace_back(action::Blame{incident});
  return decision;
}

/// The same, once the agents of those that are blamed have told what they do, or had their time.
Decision ask_and_blame(const ClusterState& state, std::vector<Incident> incidents, TimePoint now);

}  // namespace pfc
