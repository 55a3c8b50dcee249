// Convolutions with one or two channels a group: bound by memory, so vectors run along the channels
// as they lie in memory. With two channels a group, y = x * own + swap(x) * other, where swap
// exchanges the two channels of each pair inside the vector.

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/vector.h"

namespace pfc::PFC_ISA {
namespace {

using Lanes [[gnu::vector_size(PFC_VECTOR_BYTES)]] = std::int32_t;

// The elements at p + c with the channels of each pair exchanged; p is at an even channel.
template <typename V>
[[gnu::always_inline]] inline V load_swapped(const float* p, std::int64_t c) {
  if constexpr (sizeof(V) == sizeof(float)) {
    return p[c ^ 1];
  } else {
    Lanes exchanged{};
    for (int i = 0; i < static_cast<int>(kWidth); ++i) exchanged[i] = i ^ 1;
    return __builtin_shuffle(load<V>(p + c), exchanged);
  }
}

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

// Taps [begin, end) that touch the image, for a window that starts at `start`.
struct Taps {
  std::int64_t begin, end;
};
Taps taps_inside(std::int64_t start, std::int64_t size, std::int64_t kernel) {
  return {larger(0, -start), smaller(kernel, size - start)};
}

// kPixels neighbouring outputs whose windows start at column iw of the image.
template <typename V, int kPixels, bool kPairs>
[[gnu::always_inline]] inline void outputs(const GroupedConv& g, const float* image, float* y,
                                           std::int64_t ih, std::int64_t iw, Taps kh, Taps kw,
                                           std::int64_t c) {
  V sums[kPixels] = {};
  for (std::int64_t h = kh.begin; h < kh.end; ++h) {
    const float* const row = image + (ih + h) * g.in_w * g.channels;
    for (std::int64_t w = kw.begin; w < kw.end; ++w) {
      const float* const weights = g.weights + (h * g.kernel + w) * (kPairs ? 2 : 1) * g.channels;
      const V own = load<V>(weights + c);
      const V other = kPairs ? load<V>(weights + g.channels + c) : V{};
      for (int p = 0; p < kPixels; ++p) {
        const float* const x = row + (iw + w + p * g.stride) * g.channels;
        sums[p] += load<V>(x + c) * own;
        if constexpr (kPairs) sums[p] += load_swapped<V>(x, c) * other;
      }
    }
  }
  for (int p = 0; p < kPixels; ++p) store(y + p * g.channels + c, sums[p]);
}

template <int kPixels, bool kPairs>
void outputs_of_all_channels(const GroupedConv& g, const float* image, float* y, std::int64_t ih,
                             std::int64_t iw, Taps kh, Taps kw) {
  for_each_vector(g.channels, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
    outputs<V, kPixels, kPairs>(g, image, y, ih, iw, kh, kw, c);
  });
}

template <bool kPairs>
void forward_rows(const GroupedConv& g, std::int64_t begin, std::int64_t end) {
  constexpr int kPixels = 4;  // share the loads of the weights
  for (std::int64_t row = begin; row < end; ++row) {
    const float* const image = g.x + row / g.out_h * g.in_h * g.in_w * g.channels;
    float* const y = g.y + row * g.out_w * g.channels;
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

// Adds one row of outputs to the gradients of one row of taps, for one vector of channels.
template <typename V, int kKernel, bool kPairs>
[[gnu::always_inline]] inline void add_row(const GroupedConv& g, const float* x, const float* dy,
                                           float* gradients, std::int64_t c) {
  constexpr int kKinds = kPairs ? 2 : 1;
  V sums[kKernel][kKinds];
  for (int w = 0; w < kKernel; ++w) {
    for (int k = 0; k < kKinds; ++k)
      sums[w][k] = load<V>(gradients + (w * kKinds + k) * g.channels + c);
  }
  for (std::int64_t ow = 0; ow < g.out_w; ++ow) {
    const std::int64_t iw = ow * g.stride - g.pad;
    const V own = load<V>(dy + ow * g.channels + c);
    const V other = kPairs ? load_swapped<V>(dy + ow * g.channels, c) : V{};
    const bool inside = iw >= 0 && iw + kKernel <= g.in_w;
    for (int w = 0; w < kKernel; ++w) {
      if (!inside && (iw + w < 0 || iw + w >= g.in_w)) continue;
      const V value = load<V>(x + (iw + w) * g.channels + c);
      sums[w][0] += own * value;
      if constexpr (kPairs) sums[w][1] += other * value;
    }
  }
  for (int w = 0; w < kKernel; ++w) {
    for (int k = 0; k < kKinds; ++k)
      store(gradients + (w * kKinds + k) * g.channels + c, sums[w][k]);
  }
}

template <int kKernel, bool kPairs>
void weight_gradient_of(const GroupedConv& g, std::int64_t rows, std::int64_t first,
                        std::int64_t channels) {
  constexpr int kKinds = kPairs ? 2 : 1;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const image = g.x + row / g.out_h * g.in_h * g.in_w * g.channels;
    const float* const dy = g.y + row * g.out_w * g.channels + first;
    const std::int64_t ih = row % g.out_h * g.stride - g.pad;
    const Taps kh = taps_inside(ih, g.in_h, kKernel);
    for (std::int64_t h = kh.begin; h < kh.end; ++h) {
      const float* const x = image + (ih + h) * g.in_w * g.channels + first;
      float* const gradients = g.gradients + h * kKernel * kKinds * g.channels + first;
      for_each_vector(channels, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
        add_row<V, kKernel, kPairs>(g, x, dy, gradients, c);
      });
    }
  }
}

}  // namespace

void grouped_forward(const GroupedConv& g, std::int64_t begin, std::int64_t end) {
  return g.pairs ? forward_rows<true>(g, begin, end) : forward_rows<false>(g, begin, end);
}

void grouped_weight_gradient(const GroupedConv& g, std::int64_t rows, std::int64_t first,
                             std::int64_t channels) {
  if (g.kernel == 3) {
    return g.pairs ? weight_gradient_of<3, true>(g, rows, first, channels)
                   : weight_gradient_of<3, false>(g, rows, first, channels);
  }
  return g.pairs ? weight_gradient_of<7, true>(g, rows, first, channels)
                 : weight_gradient_of<7, false>(g, rows, first, channels);
}

}  // namespace pfc::PFC_ISA
