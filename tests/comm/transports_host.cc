#include "kernels/make_ops.h"
#include "tests/comm/ranks.h"

namespace pfc {

const Transport& gloo() {
  static const Transport gloo{
      "Gloo", [](int) { return make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1}); }};
  return gloo;
}

std::vector<Transport> transports() { return {gloo()}; }
std::vector<int> world_sizes() { return {1, 2, 3, 5}; }

}  // namespace pfc
