// The GradReducer of a GPU: streams instead of a thread.
#pragma once

#include <memory>

#include "kernels/ops.h"
#include "worker/comm/comm.h"
#include "worker/gradients/grad_buckets.h"
#include "worker/gradients/grad_reducer.h"

namespace pfc {

/// comm: an NcclComm with a stream of its own. Its stream waits for the compute stream bucket by
/// bucket, and wait() makes the compute stream wait for all of them: the host waits for neither.
/// The timeline is that of the newest step that the GPU had done when the next one began.
std::unique_ptr<GradReducer> make_cuda_grad_reducer(Ops& ops, Comm& comm, const Tensor& gradients,
                                                    const GradReducerOptions& options);

}  // namespace pfc
