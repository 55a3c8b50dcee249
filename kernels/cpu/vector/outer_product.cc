// Sums of outer products of float32 rows. Activations are NHWC, so the channels of both operands
// are contiguous, and no transposing or packing is needed.

#include "kernels/cpu/vector/tile_sums.h"

namespace pfc::PFC_ISA {
namespace {

struct Floats {
  template <typename V>
  [[gnu::always_inline]] static V load(const float* p) {
    return PFC_ISA::load<V>(p);
  }
  template <typename V>
  [[gnu::always_inline]] static V plus_products(V sums, V x, float broadcast) {
    return sums + x * broadcast;
  }
};

}  // namespace

void outer_product(const OuterProduct& p) { sum_products<Floats>(p); }

}  // namespace pfc::PFC_ISA
