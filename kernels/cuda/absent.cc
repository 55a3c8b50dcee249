// Compiled where CUDA is not built.

#include "common/error.h"
#include "kernels/cuda/cuda_device.h"

namespace pfc {

std::vector<DeviceInfo> cuda_devices() {
  return {{.kind = "CUDA", .available = false, .detail = "built without CUDA"}};
}

std::filesystem::path default_cache_folder() { return {}; }

std::unique_ptr<Ops> make_cuda_ops(int /*index*/, DType /*activations*/,
                                   const std::filesystem::path& /*cache*/) {
  throw InputError(
      "device: found \"cuda\", but this program was built without CUDA; use \"cpu\" or \"auto\", "
      "or "
      "build the cuda preset");
}

}  // namespace pfc
