// Converts a worker's progress to the protocol's message.
#pragma once

#include "proto/coordinator.pb.h"
#include "worker/coordinator_link/progress.h"

namespace pfc {

/// Sums the times of each phase.
proto::Progress to_proto(const Progress& progress);

/// Adds the phase times of `more` to `progress`.
void add_phases(const proto::Progress& more, proto::Progress& progress);

}  // namespace pfc
