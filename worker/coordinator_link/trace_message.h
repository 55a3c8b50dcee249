// Converts a part of a trace to the protocol's message.
#pragma once

#include "proto/coordinator.pb.h"
#include "worker/coordinator_link/trace_part.h"

namespace pfc {

/// Leaves out job, generation and rank. REQUIRES: see TracePart.
proto::SendTraceRequest to_proto(const TracePart& part);

}  // namespace pfc
