// Whether the devices of a host can compute, and how fast.
#pragma once

#include <optional>
#include <vector>

#include "common/config/config.h"
#include "kernels/ops.h"
#include "worker/check/gpu_health.h"
#include "worker/report/check_finding.h"

namespace pfc {

/// How the workers of a host share its cores.
struct WorkerThreads {
  int of_each = 1;
  int workers = 1;
  int cores = 1;  ///< of the host
};
/// The speed of a convolution on the worker's device: on a CPU with one thread, the best of many
/// short runs; and the cores that each worker has. Blocks for a second.
std::vector<CheckFinding> compute_findings(Ops& ops, const WorkerThreads& threads);

/// Driver, CUDA and NCCL, which must be the same everywhere, and each GPU's memory errors, clock
/// and throttling. `nccl`: its version; empty: there is none. Pure.
std::vector<CheckFinding> gpu_findings(const GpuHealthReport& health, const std::string& nccl);

}  // namespace pfc
