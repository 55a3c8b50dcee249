#include <cuda_runtime.h>

#include "kernels/cuda/cuda_device.h"
#include "kernels/make_ops.h"
#include "tests/comm/ranks.h"

namespace pfc {

const Transport& gloo() {
  static const Transport gloo{
      "Gloo", [](int) { return make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1}); }};
  return gloo;
}

std::vector<Transport> transports() {
  constexpr int kMostRanks = 8;
  simt::set_device_count(kMostRanks);  // one per rank: NCCL does not allow two per GPU
  return {gloo(), {"EmulatedNccl", [](int rank) { return make_cuda_ops({.index = rank}); }}};
}

std::vector<int> world_sizes() { return {1, 2, 3, 5}; }

}  // namespace pfc
