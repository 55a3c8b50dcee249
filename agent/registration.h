// What an agent tells the coordinator first: who it is and what its host has.
#pragma once

#include <string>

#include "agent/agent_options.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// `certificate_request`: of its workers; empty in plaintext. Asks the machine for its cores and
/// its addresses.
proto::AgentMessage make_registration(const AgentOptions& options, const std::string& agent_id,
                                      const std::string& certificate_request);

}  // namespace pfc
