// The agent's first message to the coordinator: its identity and its host's resources.
#pragma once

#include <string>

#include "agent/agent_options.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Reads the machine's cores and addresses. `certificate_request` is for the workers; empty in
/// plaintext.
proto::AgentMessage make_registration(const AgentOptions& options, const std::string& agent_id,
                                      const std::string& certificate_request);

}  // namespace pfc
