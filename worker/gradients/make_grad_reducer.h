// Chooses the GradReducer for a device.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "kernels/ops.h"
#include "worker/gradients/grad_reducer.h"

namespace pfc {

/// Returns a reducer that does nothing if there is one worker, or no gradient. Borrows
/// everything. REQUIRES: `comm` has no other user.
std::unique_ptr<GradReducer> make_grad_reducer(Ops& ops, Comm& comm, const Tensor& gradients,
                                               const GradReducerOptions& options = {});

}  // namespace pfc
