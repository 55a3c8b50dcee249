// Runs the checks of `pfcctl check` on a worker, instead of training (docs/check.md). Leaves the
// job's output folder as it was.
#pragma once

#include <exception>

#include "common/config/config.h"
#include "worker/coordinator_link/check_finding.h"
#include "worker/start/session_options.h"

namespace pfc {

/// Returns the finding for a clock that is `ahead` seconds ahead of the coordinator's, measured
/// with an error of up to `precision` seconds. Pure.
CheckFinding finding_of_clock(double ahead, double precision);

/// Returns the finding for an unexpected error, which would end a worker that trains. Pure.
CheckFinding unexpected_finding(const std::exception& error);

/// Runs the checks that need no other worker: limits, devices, data, memory, and on rank 0's host
/// the output folder. Only the first worker of a host reports what concerns the whole host. A job
/// without `rec` checks only the hosts. Problems become findings. Throws CommError if `tell` does.
void check_alone(const JobConfig& job, const SessionOptions& options, const TellFindings& tell);

/// Runs the checks that need all workers: connects them like a job, times its collectives, and
/// finds out which hosts share the output folder. Collective. Throws CommError if `tell` does.
void check_together(const JobConfig& job, const SessionOptions& options, const TellFindings& tell);

}  // namespace pfc
