// The vector type of the files in this folder, which are compiled once per instruction set
// (PFC_ISA names the namespace, PFC_VECTOR_BYTES the width). They must not define or instantiate
// anything outside their namespace: the linker might keep the AVX-512 copy for every machine.
#pragma once

#include <cstdint>

// A loop's body as a lambda must be part of the loop, or each vector costs a call.
#define PFC_INLINE_LAMBDA __attribute__((always_inline))

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

/// A load in a walk through memory along several streams, which hardware prefetchers lose track of:
/// asks for what the walk needs soon. Past the end of the memory that does nothing.
template <typename V>
[[gnu::always_inline]] inline V stream(const float* p) {
  constexpr std::int64_t kAhead = 1024;  // floats: a memory's latency at 10 GB/s and more
  __builtin_prefetch(p + kAhead);
  return load<V>(p);
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
