// A worker's progress as the protocol has it.
#pragma once

#include "proto/coordinator.pb.h"
#include "worker/report/progress.h"

namespace pfc {

proto::Progress to_proto(const Progress& progress);

}  // namespace pfc
