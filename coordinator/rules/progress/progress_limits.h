// Limits what the coordinator stores of a worker's report, because clients are not trusted.
#pragma once

#include "proto/coordinator.pb.h"

namespace pfc {

/// Returns the report with names as short single lines, without measurements that are not numbers,
/// and without more communicators or phases than a pfc-worker has. Pure.
proto::Progress limited(const proto::Progress& progress);

}  // namespace pfc
