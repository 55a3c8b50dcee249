// The coordinator's possible actions, from which decide() chooses, and its settings.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/rules/cluster_state.h"
#include "coordinator/rules/elastic/elastic_config.h"
#include "coordinator/rules/elastic/membership.h"
#include "coordinator/rules/health.h"

namespace pfc {

struct RendezvousConfig {
  HealthLimits limits;
  ElasticConfig elastic;
  int max_restarts = 0;                        ///< size of the RestartBudget
  std::chrono::milliseconds grace{5'000};      ///< time for peers to notice a failure
  std::chrono::milliseconds stop{60'000};      ///< time for workers to write a checkpoint and end
  std::chrono::milliseconds terminate{5'000};  ///< time between SIGTERM and SIGKILL
  std::chrono::milliseconds kill{5'000};       ///< time from SIGKILL to the agents' reports
};

namespace action {
/// Record a failure, which ends the generation.
struct Blame {
  Incident incident;
};
/// Count the failure in the job's failure history and restart budget.
struct Count {
  FailureHistory blame;
  RestartBudget budget;
};
/// Exclude or readmit slots or hosts without a new failure.
struct ChangeBlame {
  FailureHistory blame;
};
/// Measure the networks between hosts. `agents` has the id of each host's agent, by host; an empty
/// id: the host does not take part.
struct MeasureNetwork {
  std::vector<std::string> agents;
};
/// Require these hosts, which are silent and have no worker, to register again.
struct ReleaseHosts {
  std::vector<std::string> hosts;
};
/// Ask the workers to write a checkpoint and continue in another generation.
struct BeginRegroup {
  std::string reason;
  std::chrono::milliseconds within;
};
/// End the job after a checkpoint, because it needs a host that is being drained.
struct StopForHost {
  StopRequest request;
};
/// Start the next generation.
struct StartGeneration {
  std::vector<Member> members;
  std::optional<Incident> cause;  ///< failure that ended the last generation; empty: none
  std::string why;                ///< reason of a planned change; empty: failure, or first
                                  ///< generation
};
/// Ask all workers to write a checkpoint and end.
struct AskToStop {};
/// Send SIGTERM to the remaining workers.
struct Terminate {};
/// Send SIGKILL to the remaining workers.
struct Kill {};
/// End the job; verdict() returns the result.
struct Finish {};
/// Ask the agent what the worker is doing, before it is blamed.
struct Describe {
  Rank rank = 0;
};
}  // namespace action

using Action = std::variant<action::Blame, action::StartGeneration, action::AskToStop,
                            action::Terminate, action::Kill, action::Finish, action::MeasureNetwork,
                            action::Count, action::ChangeBlame, action::ReleaseHosts,
                            action::BeginRegroup, action::StopForHost, action::Describe>;

/// Handlers for std::visit, one for each kind of action: a missing one does not compile.
template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

struct Decision {
  std::string reason;           ///< text for the user; changes only when the situation does
  std::vector<Action> actions;  ///< in order; empty: wait for `reason`
};

/// Decides to wait.
inline Decision wait_for(std::string reason) {
  return {.reason = std::move(reason), .actions = {}};
}

inline Decision act(Action action, std::string reason) {
  return {.reason = std::move(reason), .actions = {std::move(action)}};
}

/// Decides to record these failures. REQUIRES: incidents is not empty.
inline Decision blame(std::vector<Incident> incidents) {
  Decision decision{.reason = incidents.front().text(), .actions = {}};
  for (Incident& incident : incidents) decision.actions.emplace_back(action::Blame{incident});
  return decision;
}

/// Like blame(), after the agents have described the blamed workers or timed out.
Decision ask_and_blame(const ClusterState& state, std::vector<Incident> incidents, TimePoint now);

}  // namespace pfc
