#include "kernels/make_ops.h"

#include <algorithm>

#include "kernels/cpu/margin/margin_softmax.h"
#include "kernels/cpu/ops/cpu_ops.h"
#include "kernels/cuda/cuda_device.h"

namespace pfc {
namespace {

bool has_cuda() {
  const std::vector<DeviceInfo> gpus = cuda_devices();
  return std::any_of(gpus.begin(), gpus.end(), [](const DeviceInfo& d) { return d.available; });
}

}  // namespace

DType activation_type(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return DType::kBFloat16;
    case Precision::kFp16:
      return DType::kFloat16;
    default:
      return DType::kFloat32;
  }
}

std::unique_ptr<Ops> make_ops(const DeviceOptions& options) {
  const bool cuda = options.choice == DeviceChoice::kCuda ||
                    (options.choice == DeviceChoice::kAuto && has_cuda());
  if (cuda) {
    return make_cuda_ops({.index = options.index,
                          .activations = activation_type(options.precision),
                          .tf32 = options.tf32,
                          .graphs = options.cuda_graphs,
                          .cache = default_cache_folder()});
  }
  return std::make_unique<CpuOps>(options.cpu_threads);
}

std::unique_ptr<MarginSoftmax> make_margin_softmax(Ops& ops, const MarginSoftmaxOptions& options,
                                                   const CentreTable& table) {
  if (ops.on_host()) return make_cpu_margin_softmax(ops, options, table);
  return make_cuda_margin_softmax(ops, options, table);
}

}  // namespace pfc
