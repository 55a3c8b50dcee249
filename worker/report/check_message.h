// Converts a finding of a check to a message for the coordinator.
#pragma once

#include "proto/coordinator.pb.h"
#include "worker/report/check_finding.h"

namespace pfc {

/// Leaves out the host, and sets rank 0 for this worker: the coordinator knows the sender.
proto::CheckFinding to_proto(const CheckFinding& finding);

}  // namespace pfc
