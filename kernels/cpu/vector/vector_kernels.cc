#include "kernels/cpu/vector/vector_kernels.h"

#include <array>

namespace pfc {

#ifdef PFC_ALL_INSTRUCTION_SETS
namespace avx512_bf16 {
extern const VectorKernels kTable;
}
namespace avx512 {
extern const VectorKernels kTable;
}
namespace avx2 {
extern const VectorKernels kTable;
}
#endif
namespace baseline {
extern const VectorKernels kTable;
}

std::span<const VectorKernels* const> runnable_vector_kernels() {
#ifdef PFC_ALL_INSTRUCTION_SETS
  static constexpr std::array<const VectorKernels*, 4> kTables{
      &avx512_bf16::kTable, &avx512::kTable, &avx2::kTable, &baseline::kTable};
  // Same features as in CMakeLists.txt. __builtin_cpu_supports() also checks that the operating
  // system saves the registers.
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool has_bf16 = has_avx512 && __builtin_cpu_supports("avx512bf16");
  return std::span(kTables).subspan(has_bf16 ? 0 : has_avx512 ? 1 : has_avx2 ? 2 : 3);
#else
  static constexpr std::array<const VectorKernels*, 1> kTables{&baseline::kTable};
  return kTables;
#endif
}

}  // namespace pfc
