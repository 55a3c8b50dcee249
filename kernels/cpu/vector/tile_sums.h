// Sums of outer products of rows, for the gradient of convolution weights: of float32 numbers
// (outer_product.cc) and of bfloat16 pairs (pair_product.cc).
#pragma once

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {

// The sums of a tile stay in registers. They start at zero and are added to c at the end, so each
// call sums its products separately from earlier calls. With 32 registers, 4 x 6 hold sums and 4
// hold vectors; with 16, 2 x 6 and 2.
constexpr int kTileVectors = PFC_VECTOR_BYTES == 64 ? 4 : 2;
constexpr int kTileBroadcasts = 6;

/// Kind provides the two functions that differ: load<V>(address), which returns the operand for a
/// V of sums, and plus_products(sums, operand, broadcast). P is OuterProduct or PairProduct.
template <typename Kind, typename V, int kVectors, int kBroadcasts, typename P>
void sum_tile(const P& p, std::int64_t v0, std::int64_t b0) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): V may be float itself
  constexpr std::int64_t kStep = sizeof(V) / sizeof(float);
  using Operand = decltype(Kind::template load<V>(p.vector_rows[0]));
  V sums[kBroadcasts][kVectors];
  for (int b = 0; b < kBroadcasts; ++b) {
    for (int v = 0; v < kVectors; ++v) sums[b][v] = V{};
  }
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const auto* vectors = p.vector_rows[row] + v0;
    const auto* broadcasts = p.broadcast_rows[row] + b0;
    for (std::int64_t k = 0; k < p.length; ++k) {
      Operand x[kVectors];
      for (int v = 0; v < kVectors; ++v) x[v] = Kind::template load<V>(vectors + v * kStep);
      for (int b = 0; b < kBroadcasts; ++b) {
        for (int v = 0; v < kVectors; ++v) {
          sums[b][v] = Kind::plus_products(sums[b][v], x[v], broadcasts[b]);
        }
      }
      vectors += p.vector_step;
      broadcasts += p.broadcast_step;
    }
  }
  float* const c = p.c + b0 * p.c_stride + v0;
  for (int b = 0; b < kBroadcasts; ++b) {
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c + b * p.c_stride + v * kStep;
      store<V>(to, load<V>(to) + sums[b][v]);
    }
  }
}

template <typename Kind, typename V, int kVectors, typename P>
void sum_panel(const P& p, std::int64_t v0) {
  std::int64_t b = 0;
  for (; b + kTileBroadcasts <= p.broadcasts; b += kTileBroadcasts) {
    sum_tile<Kind, V, kVectors, kTileBroadcasts>(p, v0, b);
  }
  switch (p.broadcasts - b) {
    case 5:
      return sum_tile<Kind, V, kVectors, 5>(p, v0, b);
    case 4:
      return sum_tile<Kind, V, kVectors, 4>(p, v0, b);
    case 3:
      return sum_tile<Kind, V, kVectors, 3>(p, v0, b);
    case 2:
      return sum_tile<Kind, V, kVectors, 2>(p, v0, b);
    case 1:
      return sum_tile<Kind, V, kVectors, 1>(p, v0, b);
    default:
      return;
  }
}

template <typename Kind, typename P>
void sum_products(const P& p) {
  std::int64_t v = 0;
  for (; v + kTileVectors * kWidth <= p.vectors; v += kTileVectors * kWidth) {
    sum_panel<Kind, Vector, kTileVectors>(p, v);
  }
  for (; v + kWidth <= p.vectors; v += kWidth) sum_panel<Kind, Vector, 1>(p, v);
  for (; v < p.vectors; ++v) sum_panel<Kind, float, 1>(p, v);
}

}  // namespace pfc::PFC_ISA
