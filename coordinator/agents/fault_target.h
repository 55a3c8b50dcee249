// Maps a requested fault to a host of the job.
#pragma once

#include <string>
#include <variant>

#include "coordinator/rules/cluster_state.h"
#include "coordinator/rules/refusal.h"

namespace pfc {

struct FaultTarget {
  std::string host;
  std::string name;    ///< "rank 3 (host b, slot 1, pid 4711)", "host b"
  proto::Fault fault;  ///< for the host's agent, without request number
};

/// Pure. Refuses a rank or host that does not exist, a worker that has ended, and a fault that
/// would certainly end the job: killing this machine's agent, unless `agent_comes_back` (it is
/// restarted).
std::variant<FaultTarget, Refusal> fault_target(const ClusterState& state,
                                                const proto::InjectFaultRequest& request,
                                                bool agent_comes_back);

/// "kills rank 3 (host b, slot 1, pid 4711)", "cuts host b off for 10 s".
std::string to_text(const FaultTarget& target);

}  // namespace pfc
