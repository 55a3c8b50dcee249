// Checks whether the devices of a host can compute, and how fast.
#pragma once

#include <optional>
#include <vector>

#include "common/config/config.h"
#include "kernels/ops.h"
#include "worker/check/gpu_health.h"
#include "worker/coordinator_link/check_finding.h"

namespace pfc {

/// Division of a host's cores between its workers.
struct CoreShares {
  int of_each = 1;
  int workers = 1;
  int cores = 1;  ///< cores of the host
};
/// Measures the speed of a convolution on the worker's device (on a CPU: with one thread, the best
/// of many short runs), and checks the number of cores per worker. Blocks for a second.
std::vector<CheckFinding> compute_findings(Ops& ops, const CoreShares& threads);

/// Returns the driver, CUDA and NCCL versions, which must be equal on all hosts, and each GPU's
/// memory errors, clock and throttling. `nccl`: its version; empty if not installed. Pure.
std::vector<CheckFinding> gpu_findings(const GpuHealthReport& health, const std::string& nccl);

}  // namespace pfc
