// Batch norm, four rows at a time: the sums, which are in the L1 cache, are loaded and stored once
// per four vectors of activations, and memory is read in four sequential streams.

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/bfloat16.h"
#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {
namespace {

constexpr std::int64_t kBlockRows = 128;  // limits errors of float32 sums to about 1e-6
constexpr std::int64_t kShiftRows = 32;   // the shift of the moments is the mean of these rows

template <typename V>
[[gnu::always_inline]] inline V prelu(V z, V slope) {
  return z > 0.f ? z : z * slope;
}

void clear(float* sums, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] = 0.f;
}

void flush(float* __restrict block, double* __restrict sums, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    sums[i] += static_cast<double>(block[i]);
    block[i] = 0.f;
  }
}

void clear_moments(const Moments& m, std::int64_t channels) {
  clear(m.block1, channels);
  clear(m.block2, channels);
  for (std::int64_t c = 0; c < channels; ++c) m.sum1[c] = m.sum2[c] = 0.0;
}

// Adds the values of kRows rows, for one vector of channels, to a block's moments.
template <typename V, int kRows>
[[gnu::always_inline]] inline void add_moments(const Moments& m, std::int64_t c, const V* values) {
  const V shift = load<V>(m.shift + c);
  V sum1 = load<V>(m.block1 + c);
  V sum2 = load<V>(m.block2 + c);
  for (int r = 0; r < kRows; ++r) {
    const V d = values[r] - shift;
    sum1 += d;
    sum2 += d * d;
  }
  store(m.block1 + c, sum1);
  store(m.block2 + c, sum2);
}

// Calls f.template operator()<kRows>(row) for groups of four rows and then for single rows, and
// flush_block() after each block of kBlockRows rows.
template <typename F, typename Flush>
[[gnu::always_inline]] inline void for_each_rows(std::int64_t rows, const F& f,
                                                 const Flush& flush_block) {
  for (std::int64_t begin = 0; begin < rows; begin += kBlockRows) {
    const std::int64_t end = begin + kBlockRows < rows ? begin + kBlockRows : rows;
    std::int64_t row = begin;
    for (; row + 4 <= end; row += 4) f.template operator()<4>(row);
    for (; row < end; ++row) f.template operator()<1>(row);
    flush_block();
  }
}

template <typename V, bool kSlope, bool kResidual, typename T>
[[gnu::always_inline]] inline V normed(const NormForward<T>& f, std::int64_t row, std::int64_t c) {
  const std::int64_t i = row * f.channels + c;
  V y = (stream<V>(f.x + i) - load<V>(f.mean + c)) * load<V>(f.scale + c) + load<V>(f.beta + c);
  if constexpr (kSlope) y = prelu(y, load<V>(f.slope + c));
  if constexpr (kResidual) y += stream<V>(f.residual + i);
  return y;
}

// Sets the shift to the mean of y's first rows. Runs before y is written: y may be x or residual.
template <bool kSlope, bool kResidual, typename T>
void start_output_moments(const NormForward<T>& f) {
  clear_moments(*f.moments, f.channels);
  const std::int64_t rows = f.rows < kShiftRows ? f.rows : kShiftRows;
  for_each_vector(f.channels, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
    V sum{};
    for (std::int64_t row = 0; row < rows; ++row) {
      sum += as_stored<T>(normed<V, kSlope, kResidual>(f, row, c));
    }
    store<V>(f.moments->shift + c, sum / static_cast<float>(rows));
  });
}

template <bool kSlope, bool kResidual, bool kMoments, typename T>
void norm_forward_rows(const NormForward<T> f) {
  if constexpr (kMoments) start_output_moments<kSlope, kResidual>(f);
  for_each_rows(
      f.rows,
      [&]<int kRows>(std::int64_t row) PFC_INLINE_LAMBDA {
        for_each_vector(f.channels, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
          V y[kRows];
          for (int r = 0; r < kRows; ++r) y[r] = normed<V, kSlope, kResidual>(f, row + r, c);
          for (int r = 0; r < kRows; ++r) {
            y[r] = store_activation<V>(f.y + (row + r) * f.channels + c, y[r]);
          }
          if constexpr (kMoments) add_moments<V, kRows>(*f.moments, c, y);
        });
      },
      [&]() PFC_INLINE_LAMBDA {
        if constexpr (kMoments) {
          flush(f.moments->block1, f.moments->sum1, f.channels);
          flush(f.moments->block2, f.moments->sum2, f.channels);
        }
      });
}

// Gradient of an element with respect to z, the normalised x, and the gradient of the slope.
template <typename V>
struct Gradient {
  V dz, xhat, dslope;
};

template <typename V, bool kSlope, typename T>
[[gnu::always_inline]] inline Gradient<V> gradient_at(const NormBackward<T>& b, std::int64_t row,
                                                      std::int64_t c) {
  const std::int64_t i = row * b.channels + c;
  const V dy = stream<V>(b.dy + i);
  const V centred = stream<V>(b.x + i) - load<V>(b.mean + c);
  Gradient<V> g{dy, centred * load<V>(b.inverse + c), V{}};
  if constexpr (kSlope) {
    // Same expression as in the forward pass, so that rounding cannot change the sign of z.
    const V z = centred * load<V>(b.scale + c) + load<V>(b.beta + c);
    g.dz = z > 0.f ? dy : dy * load<V>(b.slope + c);
    g.dslope = z > 0.f ? V{} : dy * z;
  }
  return g;
}

template <bool kSlope, typename T>
void reduce_rows(const NormBackward<T> b) {
  const auto flush_block = [&]() PFC_INLINE_LAMBDA {
    flush(b.block_dz, b.sum_dz, b.channels);
    flush(b.block_dz_xhat, b.sum_dz_xhat, b.channels);
    if constexpr (kSlope) flush(b.block_dslope, b.sum_dslope, b.channels);
  };
  const auto add_rows_of = [&]<int kRows>(std::int64_t row) PFC_INLINE_LAMBDA {
    for_each_vector(b.channels, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
      V dz = load<V>(b.block_dz + c);
      V dz_xhat = load<V>(b.block_dz_xhat + c);
      V dslope = kSlope ? load<V>(b.block_dslope + c) : V{};
      for (int r = 0; r < kRows; ++r) {
        const Gradient<V> g = gradient_at<V, kSlope>(b, row + r, c);
        dz += g.dz;
        dz_xhat += g.dz * g.xhat;
        dslope += g.dslope;
      }
      store(b.block_dz + c, dz);
      store(b.block_dz_xhat + c, dz_xhat);
      if constexpr (kSlope) store(b.block_dslope + c, dslope);
    });
  };
  for_each_rows(b.rows, add_rows_of, flush_block);
}

template <bool kSlope, bool kAdd, typename T>
void apply_rows(const NormBackward<T> b) {
  const auto apply = [&]<int kRows>(std::int64_t row) PFC_INLINE_LAMBDA {
    for_each_vector(b.channels, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
      for (int r = 0; r < kRows; ++r) {
        const std::int64_t i = (row + r) * b.channels + c;
        const Gradient<V> g = gradient_at<V, kSlope>(b, row + r, c);
        V dx = (g.dz - load<V>(b.mean_dz + c) - g.xhat * load<V>(b.mean_dz_xhat + c)) *
               load<V>(b.scale + c);
        if constexpr (kAdd) dx += stream<V>(b.add + i);
        store_activation<V>(b.dx + i, dx);
      }
    });
  };
  for_each_rows(b.rows, apply, [] {});
}

}  // namespace

template <typename T>
void moments(const T* x, std::int64_t rows, std::int64_t channels, const Moments& m) {
  clear_moments(m, channels);
  const std::int64_t first = rows < kShiftRows ? rows : kShiftRows;
  for_each_vector(channels, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
    V sum{};
    for (std::int64_t row = 0; row < first; ++row) sum += load_number<V>(x + row * channels + c);
    store<V>(m.shift + c, sum / static_cast<float>(first));
  });
  const auto add_rows_of = [&]<int kRows>(std::int64_t row) PFC_INLINE_LAMBDA {
    for_each_vector(channels, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
      V values[kRows];
      for (int r = 0; r < kRows; ++r) values[r] = stream<V>(x + (row + r) * channels + c);
      add_moments<V, kRows>(m, c, values);
    });
  };
  for_each_rows(rows, add_rows_of, [&]() PFC_INLINE_LAMBDA {
    flush(m.block1, m.sum1, channels);
    flush(m.block2, m.sum2, channels);
  });
}

template <typename T>
void norm_forward(const NormForward<T>& f) {
  const bool slope = f.slope != nullptr;
  const bool residual = f.residual != nullptr;
  if (f.moments != nullptr) {
    if (slope) return residual ? norm_forward_rows<1, 1, 1>(f) : norm_forward_rows<1, 0, 1>(f);
    return residual ? norm_forward_rows<0, 1, 1>(f) : norm_forward_rows<0, 0, 1>(f);
  }
  if (slope) return residual ? norm_forward_rows<1, 1, 0>(f) : norm_forward_rows<1, 0, 0>(f);
  return residual ? norm_forward_rows<0, 1, 0>(f) : norm_forward_rows<0, 0, 0>(f);
}

template <typename T>
void norm_backward_reduce(const NormBackward<T>& b) {
  clear(b.block_dz, b.channels);
  clear(b.block_dz_xhat, b.channels);
  clear(b.block_dslope, b.channels);
  for (std::int64_t c = 0; c < b.channels; ++c) {
    b.sum_dz[c] = b.sum_dz_xhat[c] = b.sum_dslope[c] = 0.0;
  }
  return b.slope != nullptr ? reduce_rows<true>(b) : reduce_rows<false>(b);
}

template <typename T>
void norm_backward_apply(const NormBackward<T>& b) {
  if (b.slope != nullptr) {
    return b.add != nullptr ? apply_rows<true, true>(b) : apply_rows<true, false>(b);
  }
  return b.add != nullptr ? apply_rows<false, true>(b) : apply_rows<false, false>(b);
}

template void moments(const float*, std::int64_t, std::int64_t, const Moments&);
template void moments(const BFloat16*, std::int64_t, std::int64_t, const Moments&);
template void norm_forward(const NormForward<float>&);
template void norm_forward(const NormForward<BFloat16>&);
template void norm_backward_reduce(const NormBackward<float>&);
template void norm_backward_reduce(const NormBackward<BFloat16>&);
template void norm_backward_apply(const NormBackward<float>&);
template void norm_backward_apply(const NormBackward<BFloat16>&);

}  // namespace pfc::PFC_ISA
