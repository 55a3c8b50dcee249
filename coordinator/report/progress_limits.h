// What of a worker's report the coordinator keeps: it believes no client any amount of text.
#pragma once

#include "proto/coordinator.pb.h"

namespace pfc {

/// The report with its names as short single lines, without measurements that are no number, and
/// without what no pfc-worker sends: more communicators than it has, or more samples of phases
/// than it keeps. Pure.
proto::Progress limited(const proto::Progress& progress);

}  // namespace pfc
