// The GradReducer of a CPU: a thread of its own.
#pragma once

#include <memory>

#include "kernels/ops.h"
#include "worker/comm/comm.h"
#include "worker/gradients/grad_buckets.h"
#include "worker/gradients/grad_reducer.h"

namespace pfc {

/// All arguments are borrowed; `comm` is used by the reducer's thread only. A bucket is reduced
/// once the compute stream has written it.
std::unique_ptr<GradReducer> make_cpu_grad_reducer(Ops& ops, Comm& comm, const Tensor& gradients,
                                                   const GradReducerOptions& options);

}  // namespace pfc
