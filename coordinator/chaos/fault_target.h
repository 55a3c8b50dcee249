// What a fault that somebody asks for means on the hosts of the job.
#pragma once

#include <string>
#include <variant>

#include "coordinator/cluster_state.h"
#include "coordinator/refusal.h"

namespace pfc {

struct FaultTarget {
  std::string host;
  std::string name;    ///< "rank 3 (host b, slot 1, pid 4711)", "host b"
  proto::Fault fault;  ///< as the host's agent takes it, but for its number
};

/// Pure. `agent_comes_back`: whether somebody starts the agent of this machine again; without it
/// the job would end. Refused: a rank or host that does not exist, a worker that has ended, and
/// what would end the job for certain.
std::variant<FaultTarget, Refusal> fault_target(const ClusterState& state,
                                                const proto::InjectFaultRequest& request,
                                                bool agent_comes_back);

/// "kills rank 3 (host b, slot 1, pid 4711)", "cuts host b off for 10 s".
std::string to_text(const FaultTarget& target);

}  // namespace pfc
