// pfcctl status: what the coordinator's job is doing.
#pragma once

#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {

/// For a person: the job in a line or two, then a table of its workers, and of the hosts that have
/// not registered.
std::string status_text(const proto::StatusReply& status);

}  // namespace pfc
