// pfcctl status: what the job of a coordinator is doing.
#pragma once

#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {

/// The status for people: the job in a line or two, the hosts that have not registered, a table of
/// the workers, and a line for each worker that has made no progress for a while.
std::string status_text(const proto::StatusReply& status);

}  // namespace pfc
