// Times the computation of a training step, on a job's own network.
#pragma once

#include "comm/comm.h"
#include "kernels/ops.h"
#include "worker/memory/memory_plan.h"

namespace pfc {

/// Seconds of a worker's backbone for one micro-batch.
struct BackboneSeconds {
  double forward = 0, backward = 0;
};

/// Runs a micro-batch of images through the job's backbone, forward and backward, after two passes
/// that are not timed. Returns the medians. Throws DeviceError.
BackboneSeconds time_backbone(Ops& ops, const PlannedJob& planned, int passes);

/// Passes a micro-batch of images through the job's teacher, after two passes that are not timed.
/// Returns the median; 0 without a teacher. Throws DeviceError.
double time_teacher(Ops& ops, const PlannedJob& planned, int passes);

/// Runs steps of the job's classification layer, with the samples of one micro-batch of all
/// workers, after two steps that are not timed. Returns the median of the seconds of a step.
/// Collective. Throws CommError and DeviceError.
double time_head(Ops& ops, Comm& comm, const PlannedJob& planned, int passes);

}  // namespace pfc
