// Chooses the GradReducer for a device.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "kernels/ops.h"
#include "worker/gradients/grad_reducer.h"

namespace pfc {

/// For one worker, and where there are no gradients, a reducer that does nothing. Everything is
/// borrowed. REQUIRES: `comm` is not used by anything else.
std::unique_ptr<GradReducer> make_grad_reducer(Ops& ops, Comm& comm, const Tensor& gradients,
                                               const GradReducerOptions& options = {});

}  // namespace pfc
