// Measures how fast this machine executes the ops of a training step.
#pragma once

#include <functional>
#include <string>

#include "kernels/ops.h"
#include "worker/cost/machine_profile.h"

namespace pfc {

/// Called with the next measurement, to show progress to the user.
using Measuring = std::function<void(const std::string& what)>;

/// Runs each kind of op at the sizes of face recognition networks, and a few steps of the
/// classification layer: 10 to 15 s on a CPU, up to 550 MB. Fits one rate to the times of each
/// kind. Sets everything except `local` and `decode_seconds`. `ops` uses all cores that the
/// workers of this host will share. Throws DeviceError if there is not enough memory.
MachineProfile measure_machine(Ops& ops, const Measuring& doing);

/// Measures two workers of this machine, as threads, over loopback. Throws CommError.
Link measure_loopback();

/// A single measurement, for evaluating the fit.
struct MeasuredOp {
  std::string shape;
  OpWork work;
  double seconds = 0;
};
std::vector<MeasuredOp> measure_ops(Ops& ops, const Measuring& doing);

}  // namespace pfc
