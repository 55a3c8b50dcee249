#include "kernels/make_ops.h"

#include <algorithm>

#include "kernels/cpu/margin/margin_softmax.h"
#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cpu/ops/cpu_ops.h"
#include "kernels/cuda/cuda_device.h"

namespace pfc {
namespace {

bool has_cuda() {
  const std::vector<DeviceInfo> gpus = cuda_devices();
  return std::any_of(gpus.begin(), gpus.end(), [](const DeviceInfo& d) { return d.available; });
}

bool takes_cuda(DeviceChoice choice) {
  return choice == DeviceChoice::kCuda || (choice == DeviceChoice::kAuto && has_cuda());
}

// float16 is only for GPUs; check_job() rejects it before anything is computed.
DType activations_on_cpu(Precision precision) {
  if (precision != Precision::kBf16) return DType::kFloat32;
  if (cpu_has_bfloat16()) return DType::kBFloat16;
  throw InputError(
      "precision: found bf16, but this CPU lacks the instructions for it (avx512_bf16); set "
      "\"precision\" to \"fp32\", or to \"auto\", which uses the best precision of all workers' "
      "devices");
}

}  // namespace

DType activation_type(Precision precision) {
  check(precision != Precision::kAuto, "precision auto: must be replaced before make_ops()");
  switch (precision) {
    case Precision::kBf16:
      return DType::kBFloat16;
    case Precision::kFp16:
      return DType::kFloat16;
    default:
      return DType::kFloat32;
  }
}

std::vector<Precision> precisions_of_cpu(bool bfloat16) {
  if (!bfloat16) return {Precision::kFp32};
  return {Precision::kBf16, Precision::kFp32};
}

// Tensor cores support float16 since Volta, and bfloat16, which needs no loss scale, since Ampere.
std::vector<Precision> precisions_of_gpu(int compute_capability) {
  constexpr int kVolta = 70, kAmpere = 80;
  if (compute_capability >= kAmpere) return {Precision::kBf16, Precision::kFp16, Precision::kFp32};
  if (compute_capability >= kVolta) return {Precision::kFp16, Precision::kFp32};
  return {Precision::kFp32};
}

std::vector<Precision> precisions_of(DeviceChoice choice, int index) {
  if (!takes_cuda(choice)) return precisions_of_cpu(cpu_has_bfloat16());
  const std::vector<DeviceInfo> gpus = cuda_devices();
  const auto i = static_cast<std::size_t>(index);
  return precisions_of_gpu(i < gpus.size() ? gpus[i].compute_capability : 0);
}

Precision fastest_of_all(std::span<const std::vector<Precision>> devices) {
  for (const Precision each : {Precision::kBf16, Precision::kFp16}) {
    const bool everywhere = std::ranges::all_of(devices, [&](const std::vector<Precision>& have) {
      return std::ranges::find(have, each) != have.end();
    });
    if (everywhere && !devices.empty()) return each;
  }
  return Precision::kFp32;
}

std::unique_ptr<Ops> make_ops(const DeviceOptions& options) {
  if (takes_cuda(options.choice)) {
    return make_cuda_ops({.index = options.index,
                          .activations = activation_type(options.precision),
                          .tf32 = options.tf32,
                          .graphs = options.cuda_graphs,
                          .cache = default_cache_folder()});
  }
  return std::make_unique<CpuOps>(options.cpu_threads, best_vector_kernels(),
                                  activations_on_cpu(options.precision));
}

std::unique_ptr<MarginSoftmax> make_margin_softmax(Ops& ops, const MarginSoftmaxOptions& options,
                                                   const CentreTable& table) {
  if (ops.on_host()) return make_cpu_margin_softmax(ops, options, table);
  return make_cuda_margin_softmax(ops, options, table);
}

}  // namespace pfc
