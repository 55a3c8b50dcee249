// pfcctl status: shows what a coordinator's job is doing.
#pragma once

#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Returns the status for the terminal: the job in a line or two, the hosts that have not
/// registered, a table of the workers, and a line for each worker without recent progress.
std::string status_text(const proto::StatusReply& status);

}  // namespace pfc
