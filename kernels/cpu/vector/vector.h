// The vector type of the files in this folder, which are compiled once per instruction set
// (PFC_ISA names the namespace, PFC_VECTOR_BYTES the width). They must not define or instantiate
// anything outside their namespace: the linker might keep the AVX-512 copy for every machine.
#pragma once

#include <cstdint>

namespace pfc::PFC_ISA {

/// GCC's vector extension: + - * / and comparisons with ?: work as on float.
using Vector [[gnu::vector_size(PFC_VECTOR_BYTES)]] = float;
constexpr std::int64_t kWidth = PFC_VECTOR_BYTES / 4;

/// V is Vector, or float for the elements behind the last whole vector.
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

/// Calls f.template operator()<V>(i) for [0, n): whole vectors, then single elements.
template <typename F>
[[gnu::always_inline]] inline void for_each_vector(std::int64_t n, const F& f) {
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) f.template operator()<Vector>(i);
  for (; i < n; ++i) f.template operator()<float>(i);
}

}  // namespace pfc::PFC_ISA
