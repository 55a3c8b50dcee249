#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc {

namespace avx512 {
extern const VectorKernels kTable;
}
namespace avx2 {
extern const VectorKernels kTable;
}
namespace baseline {
extern const VectorKernels kTable;
}

const VectorKernels& best_vector_kernels() {
  // The same features as in CMakeLists.txt; libgcc also asks whether the system saves the
  // registers.
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return avx512::kTable;
  }
  return has_avx2 ? avx2::kTable : baseline::kTable;
}

}  // namespace pfc
