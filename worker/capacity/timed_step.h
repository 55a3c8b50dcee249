// Times the computation of a training step, on a job's own network.
#pragma once

#include "comm/comm.h"
#include "kernels/ops.h"
#include "worker/memory/memory_plan.h"

namespace pfc {

/// Seconds of a worker's part of a step, without separate collectives.
struct ComputeSeconds {
  double forward = 0, backward = 0;  ///< sum over all micro-batches
  double head = 0;                   ///< same, including its own collective
};

/// Runs a micro-batch of images through the job's backbone, forward and backward, after a pass that
/// is not timed. Returns the medians, without `head`. Throws DeviceError.
ComputeSeconds time_backbone(Ops& ops, const PlannedJob& planned, int passes);

/// Runs steps of the job's classification layer, with the samples of one micro-batch of all
/// workers. Returns the median. Collective. Throws CommError and DeviceError.
double time_head(Ops& ops, Comm& comm, const PlannedJob& planned, int passes);

}  // namespace pfc
