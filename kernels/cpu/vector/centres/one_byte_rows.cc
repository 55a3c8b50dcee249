// Reads and writes rows of one-byte numbers (kernels/math/one_byte.h).

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/one_byte.h"

namespace pfc::PFC_ISA {
namespace {

/// Rounds x to one-byte numbers times the scale, in place, and stores their codes. Returns the bits
/// of the largest magnitude.
template <typename Numbers>
std::uint32_t round_row(const OneByteRow& row, const RowRounding& rounding, float scale, float* x) {
  const float inverse = 1.f / scale;
  LargestBits largest;
  const auto round = [&]<typename V>(std::int64_t i, V u) PFC_INLINE_LAMBDA {
    using W = typename WordsOf<V>::Type;
    const auto rounded = Numbers::template encode<V, W>(load<V>(x + i) * inverse, u);
    const V number = rounded.number * scale;
    largest.add<V>(number);
    store<V>(x + i, number);
    store_codes<W>(row.codes + i, rounded.code);
  };
  if (rounding.stochastic) {
    for_each_vector(row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const auto bits = random_bits<V>(rounding.key, rounding.first_element + i);
      round.template operator()<V>(i, uniform_of_bits<V>(bits));
    });
  } else {
    for_each_vector(row.n, [&]<typename V>(std::int64_t i)
                               PFC_INLINE_LAMBDA { round.template operator()<V>(i, V{} + 0.5f); });
  }
  return largest.bits();
}

template <typename Numbers>
float write_row(const OneByteRow& row, const RowRounding& rounding, std::uint32_t largest,
                float* x) {
  const float scale = row_scale<Numbers>(largest);
  if (!(scale > 0)) {  // 0 or NaN
    for (std::int64_t i = 0; i < row.n; ++i) {
      x[i] = scale;
      row.codes[i] = 0;
    }
    return scale;
  }
  largest = round_row<Numbers>(row, rounding, scale, x);
  // If rounding has made the largest number smaller, a smaller scale may now fit. The row is then
  // written again with that scale. This does not change its numbers. So rows of equal numbers have
  // equal bytes, also after a conversion to float32 and back.
  return row_scale<Numbers>(largest) == scale ? scale
                                              : write_row<Numbers>(row, rounding, largest, x);
}

template <typename Numbers>
void read_row(const OneByteRow& row, float scale, float* x) {
  const Codes<Numbers> codes{row.codes, scale};
  for_each_vector(row.n, [&]<typename V>(std::int64_t i)
                             PFC_INLINE_LAMBDA { store<V>(x + i, load_number<V>(codes + i)); });
}

}  // namespace

float write_measured_row(const OneByteRow& row, const RowRounding& rounding, std::uint32_t largest,
                         float* x) {
  return row.format == OneByteFormat::kInt8 ? write_row<Int8Numbers>(row, rounding, largest, x)
                                            : write_row<Fp8Numbers>(row, rounding, largest, x);
}

float write_one_byte_row(const OneByteRow& row, const RowRounding& rounding, float* x) {
  LargestBits largest;
  for_each_vector(
      row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA { largest.add<V>(load<V>(x + i)); });
  return write_measured_row(row, rounding, largest.bits(), x);
}

void read_one_byte_row(const OneByteRow& row, float scale, float* x) {
  return row.format == OneByteFormat::kInt8 ? read_row<Int8Numbers>(row, scale, x)
                                            : read_row<Fp8Numbers>(row, scale, x);
}

}  // namespace pfc::PFC_ISA
