// What the worker of a check does in place of training (docs/check.md). Nothing of the job is
// changed: its output folder has the same files afterwards.
#pragma once

#include <exception>

#include "common/config/config.h"
#include "worker/report/check_finding.h"
#include "worker/training_session.h"

namespace pfc {

/// Of a clock that is so many seconds ahead of the coordinator's, measured to `precision` seconds.
/// Pure.
CheckFinding finding_of_clock(double ahead, double precision);

/// Of an error that would end a worker. Pure.
CheckFinding unexpected_finding(const std::exception& error);

/// What this worker can find without any other: limits, devices, data, memory, and on the host of
/// rank 0 the output folder. Of what concerns the whole host only the first worker there tells. A
/// job without `rec` is a check of the hosts alone. What goes wrong is a finding. Throws CommError
/// where `tell` does.
void check_alone(const JobConfig& job, const SessionOptions& options, const TellFindings& tell);

/// What all workers find together: connects them as the job does, times its collectives, and looks
/// who shares the output folder. Collective. Throws CommError where `tell` does.
void check_together(const JobConfig& job, const SessionOptions& options, const TellFindings& tell);

}  // namespace pfc
