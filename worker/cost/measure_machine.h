// Measures how fast this machine does the ops of a training step.
#pragma once

#include <functional>
#include <string>

#include "kernels/ops.h"
#include "worker/cost/machine_profile.h"

namespace pfc {

/// Told what is measured next, for a person who waits.
using Measuring = std::function<void(const std::string& what)>;

/// Executes each kind of op at the sizes of face recognition networks, and a few steps of the
/// classification layer, for 10 to 15 s on a CPU; takes up to 550 MB. Fits one rate to the times of
/// each kind. Gives all but `local` and `decode_seconds`. `ops` has all cores that the workers of
/// this host will share. Throws DeviceError where there is not enough memory.
MachineProfile measure_machine(Ops& ops, const Measuring& doing);

/// Two workers of this machine, as threads, over loopback. Throws CommError.
Link measure_loopback();

/// Single measurements, for those who look at how good the fit is.
struct MeasuredOp {
  std::string shape;
  OpWork work;
  double seconds = 0;
};
std::vector<MeasuredOp> measure_ops(Ops& ops, const Measuring& doing);

}  // namespace pfc
