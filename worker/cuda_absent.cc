// Compiled where CUDA is not built. Without a GPU's Ops nobody comes here.

#include "common/error.h"
#include "worker/comm/device_comms.h"
#include "worker/cuda_grad_reducer.h"

namespace pfc {

DeviceComms make_nccl_comms(Ops& /*ops*/, const CommOptions& /*options*/,
                            KeyValueStore& /*store*/) {
  throw DeviceError("NCCL: this program was built without CUDA");
}

std::unique_ptr<GradReducer> make_cuda_grad_reducer(Ops& /*ops*/, Comm& /*comm*/,
                                                    const Tensor& /*gradients*/,
                                                    const GradReducerOptions& /*options*/) {
  throw DeviceError("a reducer on a GPU: this program was built without CUDA");
}

}  // namespace pfc
