// Which roles may make which calls, if the coordinator serves over TLS.
#pragma once

#include <string_view>

#include "security/identity.h"

namespace pfc {

/// Returns whether this role may send this request, given by message name: "StopRequest", for a
/// stream "AgentMessage". Requests that are not in the table are allowed only for admins.
bool may_call(Role role, std::string_view request);

}  // namespace pfc
