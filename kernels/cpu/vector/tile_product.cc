// Matrix products of a tile of classes. The other operand, the embeddings, is packed once per
// step, so nothing is copied here. During the arithmetic, the memory of the next tile is
// prefetched, which a library's product cannot do.

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/bfloat16.h"
#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {
namespace {

// With 32 registers, 6 x 4 hold sums and 4 hold words of b. With 16, 6 x 2 hold sums and 2 words.
constexpr int kVectors = PFC_VECTOR_BYTES == 64 ? 4 : 2;
constexpr int kRows = 6;
constexpr std::int64_t kPanel = kVectors * kWidth;
static_assert(kPanel == kProductPanel && kRows == kProductRows);
// Depth of one pass in words, small enough that its part of a panel stays in the L1 cache.
constexpr std::int64_t kDepth = 128;

struct Floats {
  using Operand = Vector;
  [[gnu::always_inline]] static Vector read(const float* b) { return load<Vector>(b); }
  [[gnu::always_inline]] static float broadcast(const float* a) { return *a; }
  [[gnu::always_inline]] static Vector add(Vector sum, Vector x, float y) { return sum + x * y; }
};

#ifdef __AVX512BF16__
struct Pairs {
  using Operand = __m512bh;
  [[gnu::always_inline]] static __m512bh read(const float* b) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(b));
  }
  [[gnu::always_inline]] static __m512bh broadcast(const float* a) {
    int pair;
    __builtin_memcpy(&pair, a, sizeof(pair));
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  [[gnu::always_inline]] static Vector add(Vector sum, __m512bh x, __m512bh y) {
    return _mm512_dpbf16_ps(sum, x, y);
  }
};
#endif

/// Memory to prefetch during the next steps.
struct Lines {
  const char* address;
  std::int64_t step;  // bytes per step
  std::int64_t steps;
};

/// Takes at most `steps` steps from the list. If the list is empty, the steps prefetch `idle`.
Lines take(PrefetchList& list, std::int64_t steps, const void* idle) {
  if (list.next == list.end) return {static_cast<const char*>(idle), 0, steps};
  const Stretch& now = *list.next;
  Lines lines{static_cast<const char*>(now.begin) + list.done, list.step, steps};
  const std::int64_t left = (now.bytes - list.done + list.step - 1) / list.step;
  if (left <= steps) {
    lines.steps = left;
    list.done = 0;
    ++list.next;
  } else {
    list.done += steps * list.step;
  }
  return lines;
}

/// Stores or adds the first n floats of a vector.
[[gnu::always_inline]] inline void store_part(float* to, Vector v, bool add, std::int64_t n) {
  if (n >= kWidth) return store<Vector>(to, add ? load<Vector>(to) + v : v);
  for (std::int64_t i = 0; i < n; ++i) to[i] = add ? to[i] + v[i] : v[i];
}

/// Computes the sums of kR rows of a and kV vectors of columns, starting at a, b and c.
template <typename Word, int kV, int kR>
void block(const TileProduct& p, const float* a, const float* b, float* c, std::int64_t columns,
           bool add, std::int64_t depth, PrefetchList& soon) {
  Vector sums[kR][kV];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) sums[r][v] = Vector{};
  }
  while (depth > 0) {
    Lines lines = take(soon, depth, b);
    depth -= lines.steps;
    for (; lines.steps > 0; --lines.steps) {
      // Prefetches into all levels: a hint for L2 did not help gathers on a Zen 5.
      __builtin_prefetch(lines.address, 0, 3);
      lines.address += lines.step;
      typename Word::Operand x[kV];
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) x[v] = Word::read(b + v * kWidth);
#pragma GCC unroll 8
      for (int r = 0; r < kR; ++r) {
        const auto y = Word::broadcast(a + r * p.a_row);
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) sums[r][v] = Word::add(sums[r][v], x[v], y);
      }
      a += p.a_step;
      b += p.b_step;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      store_part(c + r * p.c_row + v * kWidth, sums[r][v], add, columns - v * kWidth);
    }
  }
}

template <typename Word, int kV>
void panel(const TileProduct& p, const float* a, const float* b, float* c, std::int64_t columns,
           bool add, std::int64_t depth, PrefetchList& soon) {
  std::int64_t r = 0;
  const auto rows = [&]<int kR>() {
    block<Word, kV, kR>(p, a + r * p.a_row, b, c + r * p.c_row, columns, add, depth, soon);
  };
  for (; r + kRows <= p.rows; r += kRows) rows.template operator()<kRows>();
  switch (p.rows - r) {
    case 5:
      return rows.template operator()<5>();
    case 4:
      return rows.template operator()<4>();
    case 3:
      return rows.template operator()<3>();
    case 2:
      return rows.template operator()<2>();
    case 1:
      return rows.template operator()<1>();
    default:
      return;
  }
}

template <typename Word>
void product(const TileProduct& p, PrefetchList& soon) {
  const auto* a = static_cast<const float*>(p.a);
  const auto* b = static_cast<const float*>(p.b);
  for (std::int64_t done = 0; done < p.depth; done += kDepth) {
    const std::int64_t depth = p.depth - done < kDepth ? p.depth - done : kDepth;
    const bool add = p.add || done > 0;
    for (std::int64_t j = 0; j < p.columns; j += kPanel) {
      const float* const from_a = a + done * p.a_step;
      const float* const from_b = b + j / kPanel * p.b_panel + done * p.b_step;
      const std::int64_t columns = p.columns - j;
      const auto vectors = [&]<int kV>() {
        panel<Word, kV>(p, from_a, from_b, p.c + j, columns, add, depth, soon);
      };
      if (columns > (kVectors - 1) * kWidth) {
        vectors.template operator()<kVectors>();
      } else if (columns > 2 * kWidth) {
        vectors.template operator()<kVectors == 4 ? 3 : 1>();
      } else if (columns > kWidth) {
        vectors.template operator()<kVectors == 4 ? 2 : 1>();
      } else {
        vectors.template operator()<1>();
      }
    }
  }
}

}  // namespace

void float_product(const TileProduct& p, PrefetchList& soon) { product<Floats>(p, soon); }

#ifdef __AVX512BF16__
void bfloat16_product(const TileProduct& p, PrefetchList& soon) { product<Pairs>(p, soon); }
#endif

void pair_rows(const BFloat16* x, std::int64_t x_stride, std::int64_t rows, std::int64_t columns,
               std::uint32_t* pairs, std::int64_t stride) {
  const auto widened = [](const BFloat16* from) PFC_INLINE_LAMBDA {
    Halves halves;
    __builtin_memcpy(&halves, from, sizeof(halves));
    return __builtin_convertvector(halves, Words);
  };
  for (std::int64_t r = 0; r < rows; r += 2, x += 2 * x_stride, pairs += stride) {
    for (std::int64_t i = 0; i < columns; i += kWidth) {
      Words words = widened(x + i);
      if (r + 1 < rows) words |= widened(x + x_stride + i) << 16;
      __builtin_memcpy(pairs + i, &words, sizeof(words));
    }
  }
}

}  // namespace pfc::PFC_ISA
