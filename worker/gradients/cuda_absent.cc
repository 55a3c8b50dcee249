// Compiled into programs without CUDA. Those have no GPU Ops that could need this reducer.

#include "common/error.h"
#include "worker/gradients/device_grad_reducers.h"

namespace pfc {

std::unique_ptr<GradReducer> make_cuda_grad_reducer(Ops& /*ops*/, Comm& /*comm*/,
                                                    const Tensor& /*gradients*/,
                                                    const GradReducerOptions& /*options*/) {
  throw DeviceError("GradReducer on a GPU: this program was built without CUDA");
}

}  // namespace pfc
