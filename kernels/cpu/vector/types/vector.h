// The vector type of the files in this folder, which are compiled once for each instruction set:
// PFC_ISA is the namespace, PFC_VECTOR_BYTES the width. These files must not define or instantiate
// anything outside their namespace, because the linker could keep the AVX-512 copy of it for all
// machines.
#pragma once

#include <cstdint>

// For a lambda that is a loop body: without inlining, each vector would cost a call.
#define PFC_INLINE_LAMBDA __attribute__((always_inline))

namespace pfc::PFC_ISA {

/// GCC's vector extension: + - * / and comparisons with ?: work as on float.
using Vector [[gnu::vector_size(PFC_VECTOR_BYTES)]] = float;
constexpr std::int64_t kWidth = PFC_VECTOR_BYTES / 4;

/// Loads a V: Vector, or float for the elements after the last whole vector.
template <typename V>
[[gnu::always_inline]] inline V load(const float* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}

template <typename V>
[[gnu::always_inline]] inline void store(float* p, V v) {
  __builtin_memcpy(p, &v, sizeof(V));
}

/// Calls f.template operator()<V>(i) over [0, n): for whole vectors, then for single elements.
template <typename F>
[[gnu::always_inline]] inline void for_each_vector(std::int64_t n, const F& f) {
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) f.template operator()<Vector>(i);
  for (; i < n; ++i) f.template operator()<float>(i);
}

}  // namespace pfc::PFC_ISA
