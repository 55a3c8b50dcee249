// Chooses the GradReducer of a device.
#pragma once

#include <memory>

#include "kernels/ops.h"
#include "worker/comm/comm.h"
#include "worker/gradients/grad_buckets.h"
#include "worker/gradients/grad_reducer.h"

namespace pfc {

/// For one worker it does nothing. comm and ops are borrowed; comm is used by the reducer only.
std::unique_ptr<GradReducer> make_grad_reducer(Ops& ops, Comm& comm, const Tensor& gradients,
                                               const GradReducerOptions& options = {});

}  // namespace pfc
