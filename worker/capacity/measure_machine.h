// Measures how fast this machine executes a job's training step.
#pragma once

#include <functional>
#include <string>

#include "kernels/ops.h"
#include "worker/capacity/machine_profile.h"

namespace pfc {

/// Called with the name of the next measurement, to show progress to the user.
using Measuring = std::function<void(const std::string& what)>;

/// Measures a matrix product and a pass over memory, then a part of the job: a few images through
/// its network, and a step of its classification layer with few classes. Takes seconds. Sets
/// everything except `local` and `decode_seconds`. `ops` uses all cores that the workers of this
/// host will share. Throws DeviceError if there is not enough memory.
MachineProfile measure_machine(Ops& ops, const PlannedJob& planned, const Measuring& doing);

/// Measures two workers of this machine, as threads, over loopback. Throws CommError.
Link measure_loopback();

}  // namespace pfc
