// A finding of a check, as it is sent to the coordinator.
#pragma once

#include "proto/coordinator.pb.h"
#include "worker/report/check_finding.h"

namespace pfc {

/// Without the host, and with rank 0 in place of this worker's: the coordinator knows who tells it.
proto::CheckFinding to_proto(const CheckFinding& finding);

}  // namespace pfc
