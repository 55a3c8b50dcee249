// A worker's progress as the protocol has it.
#pragma once

#include "proto/coordinator.pb.h"
#include "worker/report/progress.h"

namespace pfc {

/// The times of each phase together.
proto::Progress to_proto(const Progress& progress);

/// Adds times of phases that `progress` does not have.
void add_phases(const proto::Progress& more, proto::Progress& progress);

}  // namespace pfc
