// Reads and writes rows of one-byte numbers (kernels/math/one_byte.h).

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/bfloat16.h"
#include "kernels/cpu/vector/types/vector.h"
#include "kernels/math/one_byte.h"

namespace pfc::PFC_ISA {
namespace {

using Bytes [[gnu::vector_size(PFC_VECTOR_BYTES / 4)]] = std::uint8_t;

/// Calls f.template operator()<F, W>(i) over [0, n): for whole vectors, then for single elements.
template <typename F>
[[gnu::always_inline]] inline void for_each_words(std::int64_t n, const F& f) {
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) f.template operator()<Vector, Words>(i);
  for (; i < n; ++i) f.template operator()<float, std::uint32_t>(i);
}

template <typename W>
[[gnu::always_inline]] inline W load_codes(const std::uint8_t* p) {
  if constexpr (sizeof(W) == sizeof(std::uint32_t)) {
    return *p;
  } else {
    Bytes bytes;
    __builtin_memcpy(&bytes, p, sizeof(bytes));
    return __builtin_convertvector(bytes, Words);
  }
}

template <typename W>
[[gnu::always_inline]] inline void store_codes(std::uint8_t* p, W codes) {
  if constexpr (sizeof(W) == sizeof(std::uint32_t)) {
    *p = static_cast<std::uint8_t>(codes);
  } else {
    const Bytes bytes = __builtin_convertvector(codes, Bytes);
    __builtin_memcpy(p, &bytes, sizeof(bytes));
  }
}

/// Returns the bits of the largest magnitude. A NaN counts as the largest.
std::uint32_t largest_bits(const float* x, std::int64_t n) {
  Words most{};
  std::uint32_t rest = 0;
  for_each_words(n, [&]<typename F, typename W>(std::int64_t i) PFC_INLINE_LAMBDA {
    const W bits = same_bits<W>(load<F>(x + i)) & 0x7fffffffu;
    if constexpr (sizeof(W) == sizeof(std::uint32_t)) {
      rest = bits > rest ? bits : rest;
    } else {
      most = bits > most ? bits : most;
    }
  });
  for (std::int64_t lane = 0; lane < kWidth; ++lane) rest = most[lane] > rest ? most[lane] : rest;
  return rest;
}

/// Rounds x to one-byte numbers times the scale, in place, and stores their codes.
template <typename Numbers>
void round_row(const OneByteRow& row, const RowRounding& rounding, float scale, float* x) {
  const float inverse = 1.f / scale;
  const auto round = [&]<typename F, typename W>(std::int64_t i, F u) PFC_INLINE_LAMBDA {
    const auto rounded = Numbers::template encode<F, W>(load<F>(x + i) * inverse, u);
    store<F>(x + i, rounded.number * scale);
    store_codes<W>(row.codes + i, rounded.code);
  };
  if (!rounding.stochastic) {
    return for_each_words(row.n, [&]<typename F, typename W>(std::int64_t i) PFC_INLINE_LAMBDA {
      round.template operator()<F, W>(i, F{} + 0.5f);
    });
  }
  for_each_words(row.n, [&]<typename F, typename W>(std::int64_t i) PFC_INLINE_LAMBDA {
    const W bits = random_bits<F>(rounding.key, rounding.first_element + i);
    round.template operator()<F, W>(i, uniform_of_bits<F>(bits));
  });
}

template <typename Numbers>
float write_row(const OneByteRow& row, const RowRounding& rounding, float* x) {
  const float scale = row_scale<Numbers>(largest_bits(x, row.n));
  if (!(scale > 0)) {  // 0 or NaN
    for (std::int64_t i = 0; i < row.n; ++i) {
      x[i] = scale;
      row.codes[i] = 0;
    }
    return scale;
  }
  round_row<Numbers>(row, rounding, scale, x);
  // If rounding has made the largest number smaller, a smaller scale may now fit. The row is then
  // written again with that scale. This does not change its numbers. So rows of equal numbers have
  // equal bytes, also after a conversion to float32 and back.
  const float least = row_scale<Numbers>(largest_bits(x, row.n));
  return least == scale ? scale : write_row<Numbers>(row, rounding, x);
}

template <typename Numbers>
void read_row(const OneByteRow& row, float scale, float* x) {
  for_each_words(row.n, [&]<typename F, typename W>(std::int64_t i) PFC_INLINE_LAMBDA {
    store<F>(x + i, Numbers::template decode<F>(load_codes<W>(row.codes + i)) * scale);
  });
}

}  // namespace

float write_one_byte_row(const OneByteRow& row, const RowRounding& rounding, float* x) {
  return row.format == OneByteFormat::kInt8 ? write_row<Int8Numbers>(row, rounding, x)
                                            : write_row<Fp8Numbers>(row, rounding, x);
}

void read_one_byte_row(const OneByteRow& row, float scale, float* x) {
  return row.format == OneByteFormat::kInt8 ? read_row<Int8Numbers>(row, scale, x)
                                            : read_row<Fp8Numbers>(row, scale, x);
}

}  // namespace pfc::PFC_ISA
