// A part of a trace as the protocol has it.
#pragma once

#include "proto/coordinator.pb.h"
#include "worker/report/trace_part.h"

namespace pfc {

/// Without job, generation and rank. REQUIRES: what TracePart does.
proto::SendTraceRequest to_proto(const TracePart& part);

}  // namespace pfc
