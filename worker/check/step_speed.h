// How many steps a second to expect of a job, from a piece of one.
#pragma once

#include "comm/comm.h"
#include "kernels/ops.h"
#include "worker/check/collectives_check.h"
#include "worker/memory/memory_plan.h"
#include "worker/report/check_finding.h"

namespace pfc {

/// Each worker's share of a step without collectives, in seconds.
struct ComputeSeconds {
  double forward = 0, backward = 0;  ///< of all micro-batches
  double head = 0;                   ///< likewise, with its own collective
};

/// Passes a few images through the job's backbone, forward and back, and a step through a
/// classification layer of its kind that is small enough, and scales both to the job's batch and
/// classes. All workers do it at once, as in training. Collective. Throws CommError and
/// DeviceError.
ComputeSeconds time_compute(Ops& ops, Comm& step_comm, const PlannedJob& planned);

/// The step of these parts. `beside`: whether gradients are reduced beside the backward pass, by
/// other hardware than computes. Pure.
CheckFinding speed_to_expect(const ComputeSeconds& compute, const CollectiveSeconds& collectives,
                             const PlannedJob& planned, bool beside);

}  // namespace pfc
