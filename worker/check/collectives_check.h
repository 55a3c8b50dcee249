// The collectives of a training step, over the communicators of the job.
#pragma once

#include <vector>

#include "comm/comm.h"
#include "comm/nccl/device_comms.h"
#include "kernels/ops.h"
#include "worker/memory/memory_plan.h"
#include "worker/report/check_finding.h"

namespace pfc {

/// Of one worker.
struct CollectiveSeconds {
  double gradients = 0;   ///< all-reduced: all of the backbone's, where only a part was timed, too
  double embeddings = 0;  ///< of a micro-batch: gathered, and their gradients scattered
};

struct TimedCollectives {
  std::vector<CheckFinding> findings;
  CollectiveSeconds seconds;
};

/// The time of an all-reduce of the backbone's gradients, and of the head's three collectives with
/// the sizes of one micro-batch: the fastest of a few, on this worker. `gradient_bytes`: of the
/// backbone; of more than 64 MiB, and over a slow network, a part is reduced. `host_comm`: of host
/// memory. Collective. Throws CommError.
TimedCollectives time_collectives(Ops& ops, DeviceComms& comms, Comm& host_comm,
                                  const PlannedJob& planned, std::size_t gradient_bytes);

/// The same on all workers: the slowest one's. Collective. Throws CommError.
double of_slowest(Comm& host_comm, double seconds);

}  // namespace pfc
