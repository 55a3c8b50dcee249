// Convolutions with one or two channels per group. They are memory-bound, so vectors run along the
// channels, which are contiguous. With two channels per group, y = x * own + exchanged(x * other),
// where exchanged() swaps the two channels of each pair inside the vector.

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/bfloat16.h"
#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {
namespace {

// Prefetch distance. The loops jump between rows, which hardware prefetchers do not follow.
constexpr std::int64_t kAheadBytes = 4096;
constexpr std::int64_t kAheadPixels = 16;
constexpr std::int64_t kBlockPixels = 14;  // with all channels they fit the L1 cache
// A block's pixels are summed in registers. Sums of this many blocks are float32, sums of all
// blocks float64. This keeps rounding errors below 1e-6, with few conversions to float64.
constexpr std::int64_t kSummedBlocks = 128;

using Lanes [[gnu::vector_size(PFC_VECTOR_BYTES)]] = std::int32_t;

// Exchanges the channels of each pair in a vector.
[[gnu::always_inline]] inline Vector exchanged(Vector v) {
  Lanes lanes{};
  for (int i = 0; i < static_cast<int>(kWidth); ++i) lanes[i] = i ^ 1;
  return __builtin_shuffle(v, lanes);
}

// Loads p + c with the channels of each pair exchanged. REQUIRES: p is at an even channel.
template <typename V, typename T>
[[gnu::always_inline]] inline V load_exchanged(const T* p, std::int64_t c) {
  if constexpr (sizeof(V) == sizeof(float)) {
    return load_number<V>(p + (c ^ 1));
  } else {
    return exchanged(load_number<V>(p + c));
  }
}

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

// Taps [begin, end) that are inside the image, for a window that starts at `start`.
struct Taps {
  std::int64_t begin, end;
};
Taps taps_inside(std::int64_t start, std::int64_t size, std::int64_t kernel) {
  return {larger(0, -start), smaller(kernel, size - start)};
}

// Computes kPixels adjacent outputs. The first one's window is at column iw of the image.
template <typename V, int kPixels, bool kPairs, typename T>
[[gnu::always_inline]] inline void outputs(const GroupedConv<T>& g, const T* image, T* y,
                                           std::int64_t ih, std::int64_t iw, Taps kh, Taps kw,
                                           std::int64_t c) {
  // In vectors, products for the other channel of a pair are summed at the place of the input
  // channel. At the end, the two sums of each pair are exchanged.
  constexpr bool kSingle = sizeof(V) == sizeof(float);
  const std::int64_t other_c = kSingle ? c ^ 1 : c;
  V sums[kPixels] = {};
  V others[kPixels] = {};
  for (std::int64_t h = kh.begin; h < kh.end; ++h) {
    const T* next = image + ((ih + h) * g.in_w + iw + kw.begin) * g.channels + c;
    next += kAheadBytes / static_cast<std::int64_t>(sizeof(T));
    for (int p = 0; p < kPixels; ++p, next += g.stride * g.channels) __builtin_prefetch(next);
    for (std::int64_t w = kw.begin; w < kw.end; ++w) {
      const float* const weights = g.weights + (h * g.kernel + w) * (kPairs ? 2 : 1) * g.channels;
      const V own = load<V>(weights + c);
      const V other = kPairs ? load<V>(weights + g.channels + other_c) : V{};
      const T* x = image + ((ih + h) * g.in_w + iw + w) * g.channels;
      for (int p = 0; p < kPixels; ++p, x += g.stride * g.channels) {
        const V value = load_number<V>(x + c);
        sums[p] += value * own;
        if constexpr (kPairs) others[p] += (kSingle ? load_number<V>(x + other_c) : value) * other;
      }
    }
  }
  for (int p = 0; p < kPixels; ++p) {
    if constexpr (kPairs && kSingle) sums[p] += others[p];
    if constexpr (kPairs && !kSingle) sums[p] += exchanged(others[p]);
    store_activation<V>(y + p * g.channels + c, sums[p]);
  }
}

template <int kPixels, bool kPairs, typename T>
void outputs_of_all_channels(const GroupedConv<T>& g, const T* image, T* y, std::int64_t ih,
                             std::int64_t iw, Taps kh, Taps kw) {
  for_each_vector(g.channels, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
    outputs<V, kPixels, kPairs>(g, image, y, ih, iw, kh, kw, c);
  });
}

template <bool kPairs, typename T>
void forward_rows(const GroupedConv<T>& g, std::int64_t begin, std::int64_t end) {
  constexpr int kPixels = 4;  // load the weights once for this many pixels
  for (std::int64_t row = begin; row < end; ++row) {
    const T* const image = g.x + row / g.out_h * g.in_h * g.in_w * g.channels;
    T* const y = g.y + row * g.out_w * g.channels;
    const std::int64_t ih = row % g.out_h * g.stride - g.pad;
    const Taps kh = taps_inside(ih, g.in_h, g.kernel);
    for (std::int64_t ow = 0; ow < g.out_w;) {
      const std::int64_t iw = ow * g.stride - g.pad;
      const std::int64_t last_end = iw + (kPixels - 1) * g.stride + g.kernel;
      if (iw >= 0 && last_end <= g.in_w && ow + kPixels <= g.out_w) {
        outputs_of_all_channels<kPixels, kPairs>(g, image, y + ow * g.channels, ih, iw, kh,
                                                 {0, g.kernel});
        ow += kPixels;
      } else {
        outputs_of_all_channels<1, kPairs>(g, image, y + ow * g.channels, ih, iw, kh,
                                           taps_inside(iw, g.in_w, g.kernel));
        ow += 1;
      }
    }
  }
}

// Adds a block of a row's outputs to the sums of one row of taps, for one vector of channels.
template <typename V, int kKernel, bool kPairs, typename T>
[[gnu::always_inline]] inline void add_pixels(const GroupedConv<T>& g, const T* x, const T* dy,
                                              float* tap_sums, Taps pixels, std::int64_t c) {
  constexpr int kKinds = kPairs ? 2 : 1;
  V sums[kKernel][kKinds];
  for (int w = 0; w < kKernel; ++w) {
    for (int k = 0; k < kKinds; ++k) sums[w][k] = V{};
  }
  const auto add_pixel = [&](std::int64_t ow, Taps taps) PFC_INLINE_LAMBDA {
    const V own = load_number<V>(dy + ow * g.channels + c);
    const V other = kPairs ? load_exchanged<V>(dy + ow * g.channels, c) : V{};
    const T* const window = x + (ow * g.stride - g.pad) * g.channels + c;
    __builtin_prefetch(dy + (ow + kAheadPixels) * g.channels + c);
    __builtin_prefetch(window + kAheadPixels * g.stride * g.channels);
    for (int w = 0; w < kKernel; ++w) {
      if (w < taps.begin || w >= taps.end) continue;
      const V value = load_number<V>(window + w * g.channels);
      sums[w][0] += own * value;
      if constexpr (kPairs) sums[w][1] += other * value;
    }
  };
  const std::int64_t first_inside = smaller(pixels.end, (g.pad + g.stride - 1) / g.stride);
  const std::int64_t end_inside =
      smaller(pixels.end, (g.in_w + g.pad - kKernel + g.stride) / g.stride);
  std::int64_t ow = pixels.begin;
  for (; ow < first_inside; ++ow) {
    add_pixel(ow, taps_inside(ow * g.stride - g.pad, g.in_w, kKernel));
  }
  for (; ow < end_inside; ++ow) add_pixel(ow, {0, kKernel});
  for (; ow < pixels.end; ++ow) {
    add_pixel(ow, taps_inside(ow * g.stride - g.pad, g.in_w, kKernel));
  }
  for (int w = 0; w < kKernel; ++w) {
    for (int k = 0; k < kKinds; ++k) {
      float* const to = tap_sums + (w * kKinds + k) * g.channels + c;
      store<V>(to, load<V>(to) + sums[w][k]);
    }
  }
}

// Adds g.sums to g.gradients and clears g.sums, for channels [first, first + channels).
template <typename T>
void move_sums(const GroupedConv<T>& g, std::int64_t planes, std::int64_t first,
               std::int64_t channels) {
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    float* __restrict const from = g.sums + plane * g.channels + first;
    double* __restrict const to = g.gradients + plane * g.channels + first;
    for (std::int64_t c = 0; c < channels; ++c) {
      to[c] += static_cast<double>(from[c]);
      from[c] = 0.f;
    }
  }
}

template <int kKernel, bool kPairs, typename T>
void weight_gradient_of(const GroupedConv<T>& g, std::int64_t rows, std::int64_t first,
                        std::int64_t channels) {
  constexpr int kKinds = kPairs ? 2 : 1;
  const std::int64_t blocks = (g.out_w + kBlockPixels - 1) / kBlockPixels;  // per row
  const std::int64_t summed_rows = larger(1, kSummedBlocks / blocks);
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* const image = g.x + row / g.out_h * g.in_h * g.in_w * g.channels;
    const T* const dy = g.y + row * g.out_w * g.channels + first;
    const std::int64_t ih = row % g.out_h * g.stride - g.pad;
    const Taps kh = taps_inside(ih, g.in_h, kKernel);
    for (std::int64_t ow = 0; ow < g.out_w; ow += kBlockPixels) {
      const Taps pixels{ow, smaller(g.out_w, ow + kBlockPixels)};
      for (std::int64_t h = kh.begin; h < kh.end; ++h) {
        const T* const x = image + (ih + h) * g.in_w * g.channels + first;
        float* const sums = g.sums + h * kKernel * kKinds * g.channels + first;
        for_each_vector(channels, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
          add_pixels<V, kKernel, kPairs>(g, x, dy, sums, pixels, c);
        });
      }
    }
    if ((row + 1) % summed_rows == 0 || row + 1 == rows) {
      move_sums(g, kKernel * kKernel * kKinds, first, channels);
    }
  }
}

}  // namespace

template <typename T>
void grouped_forward(const GroupedConv<T>& g, std::int64_t begin, std::int64_t end) {
  return g.pairs ? forward_rows<true>(g, begin, end) : forward_rows<false>(g, begin, end);
}

template <typename T>
void grouped_weight_gradient(const GroupedConv<T>& g, std::int64_t rows, std::int64_t first,
                             std::int64_t channels) {
  if (g.kernel == 3) {
    return g.pairs ? weight_gradient_of<3, true>(g, rows, first, channels)
                   : weight_gradient_of<3, false>(g, rows, first, channels);
  }
  return g.pairs ? weight_gradient_of<7, true>(g, rows, first, channels)
                 : weight_gradient_of<7, false>(g, rows, first, channels);
}

template void grouped_forward(const GroupedConv<float>&, std::int64_t, std::int64_t);
template void grouped_forward(const GroupedConv<BFloat16>&, std::int64_t, std::int64_t);
template void grouped_weight_gradient(const GroupedConv<float>&, std::int64_t, std::int64_t,
                                      std::int64_t);
template void grouped_weight_gradient(const GroupedConv<BFloat16>&, std::int64_t, std::int64_t,
                                      std::int64_t);

}  // namespace pfc::PFC_ISA
