// Kernels of depthwise convolutions. A thread computes V channels: kPack if 16 bytes can be loaded
// at a time, otherwise 1. Adjacent threads of a warp compute adjacent channels, so a warp reads
// contiguous memory. Kernels read the weights as float32 [kernel * kernel, channels], a few
// kilobytes that stay in the L1 cache; transpose_kernel makes this copy before each pass.
#pragma once

#include "kernels/cuda/primitives/numbers.h"
#include "kernels/cuda/primitives/warps.h"

namespace pfc::depthwise {

constexpr int kMostKernel = 7;

struct Sizes {
  std::int64_t batch, in_h, in_w, out_h, out_w, channels;
  int kernel, stride, pad;
};

template <int V>
struct Floats {
  float x[V] = {};
};

template <int V, typename T>
__device__ __forceinline__ Floats<V> load(const T* p) {
  Floats<V> f;
  if constexpr (V == kPack) {
    const Pack<T> pack = load_pack(p);
#pragma unroll
    for (int k = 0; k < V; ++k) f.x[k] = to_float(pack.x[k]);
  } else {
    f.x[0] = to_float(*p);
  }
  return f;
}

template <int V, typename T>
__device__ __forceinline__ void store(T* p, const Floats<V>& f) {
  if constexpr (V == kPack) {
    Pack<T> pack;
#pragma unroll
    for (int k = 0; k < V; ++k) pack.x[k] = from_float<T>(f.x[k]);
    store_pack(p, pack);
  } else {
    *p = from_float<T>(f.x[0]);
  }
}

template <int V>
__device__ __forceinline__ void add_product(Floats<V>& sum, const Floats<V>& a,
                                            const Floats<V>& b) {
#pragma unroll
  for (int k = 0; k < V; ++k) sum.x[k] += a.x[k] * b.x[k];
}

/// Transposes w [channels, taps] into out [taps, channels].
template <typename T>
__global__ void transpose_kernel(std::int64_t channels, int taps, const T* w, float* out) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= channels * taps) return;
  out[i] = to_float(w[i % channels * taps + i / channels]);
}

/// One item of a thread's loop: V channels from `channel` on, of `Columns` adjacent pixels.
struct Pixels {
  std::int64_t image, row, column, channel;
};

template <int V, int Columns>
__device__ __forceinline__ Pixels pixels_of(std::int64_t item, std::int64_t rows,
                                            std::int64_t columns, std::int64_t channels) {
  const std::int64_t lanes = channels / V, groups = (columns + Columns - 1) / Columns;
  const std::int64_t pixel = item / lanes;
  return {.image = pixel / groups / rows,
          .row = pixel / groups % rows,
          .column = pixel % groups * Columns,
          .channel = item % lanes * V};
}

/// Computes y for `Columns` pixels, and loads each x once for all of them. Kernel and stride are
/// compile-time constants. With `kFlip` the kernel is rotated by 180 degrees, which computes
/// backward data for stride 1: x is then dy, y is dx, and `s` describes the convolution from dy to
/// dx.
template <typename T, int V, int Kernel, int Stride, int Columns, bool kFlip>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(Sizes s, std::int64_t items, const T* __restrict__ x,
                   const float* __restrict__ w, T* __restrict__ y) {
  constexpr int kInputs = (Columns - 1) * Stride + Kernel;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t item = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < items;
       item += step) {
    const Pixels at = pixels_of<V, Columns>(item, s.out_h, s.out_w, s.channels);
    const std::int64_t first_row = at.row * Stride - s.pad;
    const std::int64_t first_column = at.column * Stride - s.pad;
    Floats<V> sums[Columns];
#pragma unroll
    for (int kh = 0; kh < Kernel; ++kh) {
      const std::int64_t row = first_row + kh;
      if (row < 0 || row >= s.in_h) continue;
      Floats<V> weights[Kernel];
#pragma unroll
      for (int kw = 0; kw < Kernel; ++kw) {
        const int tap = kFlip ? Kernel * Kernel - 1 - kh * Kernel - kw : kh * Kernel + kw;
        weights[kw] = load<V>(w + tap * s.channels + at.channel);
      }
      const T* const line = x + (at.image * s.in_h + row) * s.in_w * s.channels + at.channel;
#pragma unroll
      for (int i = 0; i < kInputs; ++i) {
        const std::int64_t column = first_column + i;
        if (column < 0 || column >= s.in_w) continue;
        const Floats<V> value = load<V>(line + column * s.channels);
#pragma unroll
        for (int c = 0; c < Columns; ++c) {
          const int kw = i - c * Stride;
          if (kw >= 0 && kw < Kernel) add_product(sums[c], value, weights[kw]);
        }
      }
    }
    T* const line = y + ((at.image * s.out_h + at.row) * s.out_w + at.column) * s.channels;
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      if (at.column + c < s.out_w) store(line + c * s.channels + at.channel, sums[c]);
    }
  }
}

/// Computes y for one pixel, for any kernel and stride.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    any_forward_kernel(Sizes s, std::int64_t items, const T* __restrict__ x,
                       const float* __restrict__ w, T* __restrict__ y) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t item = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < items;
       item += step) {
    const Pixels at = pixels_of<V, 1>(item, s.out_h, s.out_w, s.channels);
    Floats<V> sum;
    for (int kh = 0; kh < s.kernel; ++kh) {
      const std::int64_t row = at.row * s.stride - s.pad + kh;
      if (row < 0 || row >= s.in_h) continue;
      for (int kw = 0; kw < s.kernel; ++kw) {
        const std::int64_t column = at.column * s.stride - s.pad + kw;
        if (column < 0 || column >= s.in_w) continue;
        const std::int64_t from = (at.image * s.in_h + row) * s.in_w + column;
        add_product(sum, load<V>(x + from * s.channels + at.channel),
                    load<V>(w + (kh * s.kernel + kw) * s.channels + at.channel));
      }
    }
    const std::int64_t to = (at.image * s.out_h + at.row) * s.out_w + at.column;
    store(y + to * s.channels + at.channel, sum);
  }
}

/// Output positions o that use an input position, along one axis: first <= o <= last.
struct Outputs {
  std::int64_t first, last;
};

__device__ __forceinline__ Outputs outputs_of(std::int64_t i, std::int64_t outputs, int kernel,
                                              int stride, int pad) {
  const std::int64_t from = i + pad - kernel + 1;
  const std::int64_t last = (i + pad) / stride;
  return {.first = from <= 0 ? 0 : (from + stride - 1) / stride,
          .last = last < outputs ? last : outputs - 1};
}

/// Computes dx for one pixel, for any kernel and stride.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    backward_data_kernel(Sizes s, std::int64_t items, const T* __restrict__ dy,
                         const float* __restrict__ w, T* __restrict__ dx) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t item = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < items;
       item += step) {
    const Pixels at = pixels_of<V, 1>(item, s.in_h, s.in_w, s.channels);
    const Outputs rows = outputs_of(at.row, s.out_h, s.kernel, s.stride, s.pad);
    const Outputs columns = outputs_of(at.column, s.out_w, s.kernel, s.stride, s.pad);
    Floats<V> sum;
    for (std::int64_t oh = rows.first; oh <= rows.last; ++oh) {
      const std::int64_t kh = at.row + s.pad - oh * s.stride;
      for (std::int64_t ow = columns.first; ow <= columns.last; ++ow) {
        const std::int64_t kw = at.column + s.pad - ow * s.stride;
        const std::int64_t from = (at.image * s.out_h + oh) * s.out_w + ow;
        add_product(sum, load<V>(dy + from * s.channels + at.channel),
                    load<V>(w + (kh * s.kernel + kw) * s.channels + at.channel));
      }
    }
    const std::int64_t to = (at.image * s.in_h + at.row) * s.in_w + at.column;
    store(dx + to * s.channels + at.channel, sum);
  }
}

/// Computes each block's part of dw: partial [block][tap][channel]. threadIdx.x indexes channels,
/// y rows of the kernel, z rows of dy. A thread iterates over rows of dy and keeps the sums for
/// one row of the kernel.
template <typename T, int V, int Kernel>
__global__ void __launch_bounds__(kThreads)
    weights_kernel(Sizes s, const T* __restrict__ x, const T* __restrict__ dy,
                   float* __restrict__ partial) {
  __shared__ float shared[V][kThreads];
  const std::int64_t channel = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * V;
  const unsigned kh = threadIdx.y;
  const bool active = channel < s.channels;
  Floats<V> sums[Kernel];
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.z;
  for (std::int64_t line = std::int64_t{blockIdx.x} * blockDim.z + threadIdx.z;
       active && line < s.batch * s.out_h; line += step) {
    const std::int64_t row = line % s.out_h * s.stride - s.pad + kh;
    if (row < 0 || row >= s.in_h) continue;
    const T* const xs = x + (line / s.out_h * s.in_h + row) * s.in_w * s.channels + channel;
    const T* const dys = dy + line * s.out_w * s.channels + channel;
    for (std::int64_t ow = 0; ow < s.out_w; ++ow) {
      const Floats<V> gradient = load<V>(dys + ow * s.channels);
#pragma unroll
      for (int kw = 0; kw < Kernel; ++kw) {
        const std::int64_t column = ow * s.stride - s.pad + kw;
        if (column < 0 || column >= s.in_w) continue;
        add_product(sums[kw], load<V>(xs + column * s.channels), gradient);
      }
    }
  }
  // Adds the sums over z column by column: shared memory is too small for all columns.
  const unsigned plane = blockDim.x * blockDim.y;
  const unsigned within = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int kw = 0; kw < Kernel; ++kw) {
#pragma unroll
    for (int k = 0; k < V; ++k) shared[k][threadIdx.z * plane + within] = sums[kw].x[k];
    __syncthreads();
    if (threadIdx.z == 0 && active) {
      Floats<V> total;
      for (unsigned z = 0; z < blockDim.z; ++z) {
#pragma unroll
        for (int k = 0; k < V; ++k) total.x[k] += shared[k][z * plane + within];
      }
      const std::int64_t tap = std::int64_t{kh} * Kernel + kw;
      store(partial + (std::int64_t{blockIdx.x} * Kernel * Kernel + tap) * s.channels + channel,
            total);
    }
    __syncthreads();
  }
}

/// Adds the blocks' parts: dw [channels, taps] from partial. A block has kWarp channels along x,
/// and kThreads / kWarp threads along y that divide the parts.
__global__ void merge_weights_kernel(std::int64_t channels, int taps, unsigned blocks,
                                     const float* partial, float* dw, bool accumulate);

}  // namespace pfc::depthwise
