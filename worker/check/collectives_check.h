// Times the collectives of a training step, over the communicators of the job.
#pragma once

#include <vector>

#include "comm/comm.h"
#include "comm/nccl/device_comms.h"
#include "kernels/ops.h"
#include "worker/coordinator_link/check_finding.h"
#include "worker/memory/memory_plan.h"

namespace pfc {

/// Times on one worker.
struct CollectiveSeconds {
  double gradients = 0;   ///< all-reduce of all gradients; extrapolated if a part was timed
  double embeddings = 0;  ///< per micro-batch: gather embeddings, scatter their gradients
};

struct TimedCollectives {
  std::vector<CheckFinding> findings;
  CollectiveSeconds seconds;
};

/// Times an all-reduce of the backbone's gradients, and the head's four collectives with the sizes
/// of one micro-batch. Runs each collective several times and returns the time of its fastest run
/// on this worker. `gradient_bytes`: size of the gradients. Above 64 MiB or over a slow network,
/// reduces a part. `host_comm` is for host memory. Collective. Throws CommError.
TimedCollectives time_collectives(Ops& ops, DeviceComms& comms, Comm& host_comm,
                                  const PlannedJob& planned, std::size_t gradient_bytes);

/// Returns the time of the slowest worker, on all workers. Collective. Throws CommError.
double of_slowest(Comm& host_comm, double seconds);

}  // namespace pfc
