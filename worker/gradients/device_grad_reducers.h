// The GradReducer of each kind of device. Only make_grad_reducer() chooses among them.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "kernels/ops.h"
#include "worker/gradients/grad_reducer.h"

namespace pfc {

/// For a CPU: a thread reduces each bucket after the compute stream has written it. Borrows
/// everything. Only that thread uses `comm`.
std::unique_ptr<GradReducer> make_cpu_grad_reducer(Ops& ops, Comm& comm, const Tensor& gradients,
                                                   const GradReducerOptions& options);

/// For a GPU: the stream of `comm` waits for the compute stream bucket by bucket, and wait() makes
/// the compute stream wait for all of them. Borrows everything. Throws DeviceError in a program
/// without CUDA. REQUIRES: ops is a CudaOps, comm an NcclComm with its own stream.
std::unique_ptr<GradReducer> make_cuda_grad_reducer(Ops& ops, Comm& comm, const Tensor& gradients,
                                                    const GradReducerOptions& options);

}  // namespace pfc
