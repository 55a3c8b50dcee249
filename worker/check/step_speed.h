// Estimates the steps per second of a job from a small part of a step.
#pragma once

#include "comm/comm.h"
#include "kernels/ops.h"
#include "worker/check/collectives_check.h"
#include "worker/coordinator_link/check_finding.h"
#include "worker/memory/memory_plan.h"

namespace pfc {

/// Seconds of a worker's part of a step, without separate collectives.
struct ComputeSeconds {
  double forward = 0, backward = 0;  ///< sum over all micro-batches
  double head = 0;  ///< sum over all micro-batches, including the head's own collective
};

/// Runs a few images through the job's backbone, forward and backward, and a step through a small
/// classification layer of the same kind, and scales both times to the job's batch and classes. All
/// workers do this at the same time, as in training. Collective. Throws CommError and DeviceError.
ComputeSeconds time_compute(Ops& ops, Comm& step_comm, const PlannedJob& planned);

/// Combines the parts of a step to the time of a step. `beside`: the gradients are reduced during
/// the backward pass, without slowing it down. Pure.
CheckFinding speed_to_expect(const ComputeSeconds& compute, const CollectiveSeconds& collectives,
                             const PlannedJob& planned, bool beside);

}  // namespace pfc
