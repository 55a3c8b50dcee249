// Compiled where CUDA is not built. Only an Ops of a GPU asks for this reducer, and there is none
// then.

#include "common/error.h"
#include "worker/gradients/cuda_grad_reducer.h"

namespace pfc {

std::unique_ptr<GradReducer> make_cuda_grad_reducer(Ops& /*ops*/, Comm& /*comm*/,
                                                    const Tensor& /*gradients*/,
                                                    const GradReducerOptions& /*options*/) {
  throw DeviceError("a reducer on a GPU: this program was built without CUDA");
}

}  // namespace pfc
