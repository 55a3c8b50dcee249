// Who may ask a coordinator for what, when it serves over TLS.
#pragma once

#include <string_view>

#include "security/identity.h"

namespace pfc {

/// Whether a caller of this role may make the call with this request ("StopRequest", the name of
/// the message; a stream's is "AgentMessage"). What the table does not have is for admins alone.
bool may_call(Role role, std::string_view request);

}  // namespace pfc
