// Replaces the CUDA sources in builds without CUDA.

#include "common/error.h"
#include "kernels/cuda/cuda_device.h"

namespace pfc {

std::vector<DeviceInfo> cuda_devices() {
  return {{.kind = "CUDA", .available = false, .detail = "built without CUDA"}};
}

std::filesystem::path default_cache_folder() { return {}; }

std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& /*options*/) {
  throw InputError(
      "device: found \"cuda\", but this program was built without CUDA; use \"cpu\" or \"auto\", "
      "or "
      "build the cuda preset");
}

std::unique_ptr<MarginSoftmax> make_cuda_margin_softmax(Ops& ops,
                                                        const MarginSoftmaxOptions& /*options*/,
                                                        const CentreTable& /*table*/) {
  throw DeviceError(ops.description() +
                    ": this program lacks the margin softmax for GPUs; build the cuda preset");
}

}  // namespace pfc
