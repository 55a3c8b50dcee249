// Batch norm kernels. A thread processes V channels: kPack if 16 bytes can be loaded at a time,
// otherwise 1. Threads along x have adjacent channels, threads along y divide the rows. A thread
// keeps the coefficients of its channels in registers and loops over its rows. The sums of a
// block's threads are added in a fixed order; a second kernel adds those of the blocks.
#pragma once

#include "kernels/cuda/primitives/numbers.h"
#include "kernels/cuda/primitives/warps.h"

namespace pfc::batch_norm {

template <int V>
struct Floats {
  float x[V];
};

/// The V elements that a thread loads at once.
template <int V, typename T>
struct Elements {
  T x[V];

  static __device__ __forceinline__ Elements load(const T* p) {
    Elements e;
    if constexpr (V == kPack) {
      const Pack<T> pack = load_pack(p);
#pragma unroll
      for (int k = 0; k < V; ++k) e.x[k] = pack.x[k];
    } else {
      e.x[0] = *p;
    }
    return e;
  }
  __device__ __forceinline__ void store(T* p) const {
    if constexpr (V == kPack) {
      Pack<T> pack;
#pragma unroll
      for (int k = 0; k < V; ++k) pack.x[k] = x[k];
      store_pack(p, pack);
    } else {
      *p = x[0];
    }
  }
};

/// A thread's first channel, and its rows: row, row + step, ... An inactive thread has no
/// channels, but must still reach the barriers.
struct Place {
  std::int64_t channel, row, step;
  bool active;
};

template <int V>
__device__ __forceinline__ Place place(std::int64_t channels) {
  const std::int64_t channel = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * V;
  return {.channel = channel,
          .row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y,
          .step = std::int64_t{gridDim.x} * blockDim.y,
          .active = channel < channels};
}

/// Returns the number of rows that the threads of a block process together.
__device__ __forceinline__ std::int64_t rows_of_block(std::int64_t rows, std::int64_t block,
                                                      std::int64_t blocks,
                                                      std::int64_t rows_at_once) {
  const std::int64_t round = blocks * rows_at_once;
  const std::int64_t rest = rows % round - block * rows_at_once;
  const std::int64_t last = rest < 0 ? 0 : rest < rows_at_once ? rest : rows_at_once;
  return rows / round * rows_at_once + last;
}

template <int V>
__device__ __forceinline__ Floats<V> channels_of(const float* p, const Place& at) {
  Floats<V> f;
#pragma unroll
  for (int k = 0; k < V; ++k) f.x[k] = at.active ? p[at.channel + k] : 0.f;
  return f;
}

struct Parameters {
  const float* mean;
  const float* variance;
  const float* gamma;
  const float* beta;
  const float* slope;  ///< nullptr: no PReLU
  float eps;
};

__device__ __forceinline__ float inverse_deviation(float variance, float eps) {
  return 1.f / sqrtf(variance + eps);
}

/// Computes z = (x - mean) * scale + beta, and its PReLU.
template <int V, bool kSlope>
struct Normaliser {
  Floats<V> mean, scale, beta, slope;

  __device__ __forceinline__ Normaliser(const Parameters& p, const Place& at)
      : mean(channels_of<V>(p.mean, at)),
        scale(channels_of<V>(p.gamma, at)),
        beta(channels_of<V>(p.beta, at)) {
    const Floats<V> variance = channels_of<V>(p.variance, at);
#pragma unroll
    for (int k = 0; k < V; ++k) scale.x[k] *= inverse_deviation(variance.x[k], p.eps);
    if constexpr (kSlope) slope = channels_of<V>(p.slope, at);
  }
  __device__ __forceinline__ float z(int k, float x) const {
    return (x - mean.x[k]) * scale.x[k] + beta.x[k];
  }
  __device__ __forceinline__ float y(int k, float x) const {
    const float value = z(k, x);
    if constexpr (kSlope) return value > 0.f ? value : value * slope.x[k];
    return value;
  }
};

/// Adds `Kinds` values over the threads of a block that have the same channels. Calls f(channel
/// within the block, sums as double[Kinds]) once per channel, in one of the threads. REQUIRES: all
/// threads of the block call it.
template <int V, int Kinds, typename F>
__device__ __forceinline__ void sum_over_rows(const Floats<V> (&values)[Kinds], const F& f) {
  __shared__ float shared[Kinds][V][kThreads];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int kind = 0; kind < Kinds; ++kind) {
#pragma unroll
    for (int k = 0; k < V; ++k) shared[kind][k][thread] = values[kind].x[k];
  }
  __syncthreads();
  for (unsigned i = thread; i < blockDim.x * V; i += kThreads) {
    const unsigned k = i / blockDim.x, x = i % blockDim.x;
    double sums[Kinds] = {};
    for (unsigned y = 0; y < blockDim.y; ++y) {
#pragma unroll
      for (int kind = 0; kind < Kinds; ++kind) {
        sums[kind] += static_cast<double>(shared[kind][k][y * blockDim.x + x]);
      }
    }
    f(x * V + k, sums);
  }
}

/// Sums of x - shift and of its square over a thread's rows. The shift is a value of the channel,
/// the same for the whole block, so that no digits are lost if |mean| >> standard deviation.
template <int V>
struct Moments {
  Floats<V> shift;
  Floats<V> sums[2] = {};

  __device__ __forceinline__ void add(int k, float x) {
    const float d = x - shift.x[k];
    sums[0].x[k] += d;
    sums[1].x[k] += d * d;
  }
  /// Writes the block's means to partial [0][block][channel], and the sums of squared deviations
  /// from them to partial [1][block][channel].
  __device__ __forceinline__ void write(std::int64_t rows, std::int64_t channels, double* partial) {
    __shared__ float shifts[kThreads * V];  // by channel within the block
    if (threadIdx.y == 0) {
#pragma unroll
      for (int k = 0; k < V; ++k) shifts[threadIdx.x * V + k] = shift.x[k];
    }
    // sum_over_rows() has a barrier before it calls f.
    const auto n = static_cast<double>(rows_of_block(rows, blockIdx.x, gridDim.x, blockDim.y));
    sum_over_rows<V>(sums, [&](unsigned c, const double(&s)[2]) {
      const std::int64_t channel = std::int64_t{blockIdx.y} * blockDim.x * V + c;
      if (channel >= channels) return;
      const std::int64_t to = std::int64_t{blockIdx.x} * channels + channel;
      partial[to] = static_cast<double>(shifts[c]) + s[0] / n;
      partial[to + std::int64_t{gridDim.x} * channels] = s[1] - s[0] * s[0] / n;
    });
  }
};

template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    moments_kernel(std::int64_t rows, std::int64_t channels, const T* __restrict__ x,
                   double* __restrict__ partial) {
  const Place at = place<V>(channels);
  Moments<V> moments{};
  if (at.active) {
    const auto first = Elements<V, T>::load(x + (at.row - threadIdx.y) * channels + at.channel);
#pragma unroll
    for (int k = 0; k < V; ++k) moments.shift.x[k] = to_float(first.x[k]);
#pragma unroll 4
    for (std::int64_t row = at.row; row < rows; row += at.step) {
      const auto values = Elements<V, T>::load(x + row * channels + at.channel);
#pragma unroll
      for (int k = 0; k < V; ++k) moments.add(k, to_float(values.x[k]));
    }
  }
  moments.write(rows, channels, partial);
}

/// Merges the blocks' moments. Subtracts the first block's mean from all blocks' means, so no
/// digits are lost if |mean| >> standard deviation.
__global__ void merge_moments_kernel(std::int64_t rows, std::int64_t channels, unsigned blocks,
                                     unsigned rows_at_once, const double* __restrict__ partial,
                                     float* mean, float* variance);

template <typename T>
struct ForwardArguments {
  const T* x;
  const T* residual;  ///< nullptr: none
  T* y;               ///< may be x or residual
  double* partial;    ///< for y's moments
};

template <typename T, int V, bool kSlope, bool kMoments>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(std::int64_t rows, std::int64_t channels, Parameters p, ForwardArguments<T> a) {
  const Place at = place<V>(channels);
  const Normaliser<V, kSlope> normaliser(p, at);
  const auto y_of = [&](const Elements<V, T>& x, std::int64_t offset) {
    Elements<V, T> y;
    Floats<V> sum;
#pragma unroll
    for (int k = 0; k < V; ++k) sum.x[k] = normaliser.y(k, to_float(x.x[k]));
    if (a.residual != nullptr) {
      const auto residual = Elements<V, T>::load(a.residual + offset);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.x[k] += to_float(residual.x[k]);
    }
#pragma unroll
    for (int k = 0; k < V; ++k) y.x[k] = from_float<T>(sum.x[k]);
    return y;
  };
  Moments<V> moments{};
  if constexpr (kMoments) {
    if (at.active) {
      const std::int64_t offset = (at.row - threadIdx.y) * channels + at.channel;
      const auto first = y_of(Elements<V, T>::load(a.x + offset), offset);
#pragma unroll
      for (int k = 0; k < V; ++k) moments.shift.x[k] = to_float(first.x[k]);
    }
    __syncthreads();  // all threads read that row before it is overwritten if y is x
  }
  if (at.active && at.row < rows) {
    auto next = Elements<V, T>::load(a.x + at.row * channels + at.channel);
    for (std::int64_t row = at.row; row < rows; row += at.step) {
      const std::int64_t offset = row * channels + at.channel;
      const auto x = next;
      // Loads the next row before the store: since y may be x, the compiler cannot reorder them.
      if (row + at.step < rows) next = Elements<V, T>::load(a.x + offset + at.step * channels);
      const auto y = y_of(x, offset);
      y.store(a.y + offset);
      if constexpr (kMoments) {
#pragma unroll
        for (int k = 0; k < V; ++k) moments.add(k, to_float(y.x[k]));
      }
    }
  }
  if constexpr (kMoments) moments.write(rows, channels, a.partial);
}

/// Writes each block's sums of dz, dz * xhat and (kSlope) dslope to partial [3][block][channel].
template <typename T, int V, bool kSlope>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(std::int64_t rows, std::int64_t channels, Parameters p, const T* __restrict__ dy,
                  const T* __restrict__ x, double* __restrict__ partial) {
  constexpr int kKinds = kSlope ? 3 : 2;
  const Place at = place<V>(channels);
  const Normaliser<V, kSlope> normaliser(p, at);
  Floats<V> sums[kKinds] = {};
  if (at.active) {
#pragma unroll 2
    for (std::int64_t row = at.row; row < rows; row += at.step) {
      const auto dys = Elements<V, T>::load(dy + row * channels + at.channel);
      const auto xs = Elements<V, T>::load(x + row * channels + at.channel);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        float dz = to_float(dys.x[k]);
        const float value = to_float(xs.x[k]);
        if constexpr (kSlope) {
          const float z = normaliser.z(k, value);
          if (z <= 0.f) {
            sums[2].x[k] += dz * z;
            dz *= normaliser.slope.x[k];
          }
        }
        sums[0].x[k] += dz;
        // merge_sums_kernel divides by the standard deviation, which gives the sum of dz * xhat.
        sums[1].x[k] += dz * (value - normaliser.mean.x[k]);
      }
    }
  }
  sum_over_rows<V>(sums, [&](unsigned c, const double(&s)[kKinds]) {
    const std::int64_t channel = std::int64_t{blockIdx.y} * blockDim.x * V + c;
    if (channel >= channels) return;
    double* to = partial + std::int64_t{blockIdx.x} * channels + channel;
#pragma unroll
    for (int kind = 0; kind < kKinds; ++kind) {
      *to = s[kind];
      to += std::int64_t{gridDim.x} * channels;
    }
  });
}

/// Adds the blocks' sums. dslope: nullptr without PReLU.
__global__ void merge_sums_kernel(std::int64_t channels, unsigned blocks,
                                  const double* __restrict__ partial, const float* variance,
                                  float eps, float* sum_dz, float* sum_dz_xhat, float* dslope);

template <typename T>
struct ApplyArguments {
  const T* dy;
  const T* x;
  const T* add;  ///< nullptr: none
  T* dx;         ///< may be dy or add
  const float* sum_dz;
  const float* sum_dz_xhat;
  float total_rows;
};

/// Computes dx = scale * (dz - mean(dz) - xhat * mean(dz * xhat)) + add.
template <typename T, int V, bool kSlope>
__global__ void __launch_bounds__(kThreads)
    apply_kernel(std::int64_t rows, std::int64_t channels, Parameters p, ApplyArguments<T> a) {
  const Place at = place<V>(channels);
  if (!at.active || at.row >= rows) return;
  const Normaliser<V, kSlope> normaliser(p, at);
  Floats<V> along = channels_of<V>(a.sum_dz_xhat, at), constant = channels_of<V>(a.sum_dz, at);
  const Floats<V> variance = channels_of<V>(p.variance, at);
#pragma unroll
  for (int k = 0; k < V; ++k) {
    along.x[k] *= -normaliser.scale.x[k] * inverse_deviation(variance.x[k], p.eps) / a.total_rows;
    constant.x[k] *= -normaliser.scale.x[k] / a.total_rows;
  }
  auto next_dy = Elements<V, T>::load(a.dy + at.row * channels + at.channel);
  auto next_x = Elements<V, T>::load(a.x + at.row * channels + at.channel);
  for (std::int64_t row = at.row; row < rows; row += at.step) {
    const std::int64_t offset = row * channels + at.channel;
    const auto dys = next_dy, xs = next_x;
    if (row + at.step < rows) {  // before the store, because dx may be dy
      next_dy = Elements<V, T>::load(a.dy + offset + at.step * channels);
      next_x = Elements<V, T>::load(a.x + offset + at.step * channels);
    }
    Floats<V> dx;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      float dz = to_float(dys.x[k]);
      const float value = to_float(xs.x[k]);
      if constexpr (kSlope) {
        if (normaliser.z(k, value) <= 0.f) dz *= normaliser.slope.x[k];
      }
      dx.x[k] =
          normaliser.scale.x[k] * dz + along.x[k] * (value - normaliser.mean.x[k]) + constant.x[k];
    }
    if (a.add != nullptr) {
      const auto add = Elements<V, T>::load(a.add + offset);
#pragma unroll
      for (int k = 0; k < V; ++k) dx.x[k] += to_float(add.x[k]);
    }
    Elements<V, T> out;
#pragma unroll
    for (int k = 0; k < V; ++k) out.x[k] = from_float<T>(dx.x[k]);
    out.store(a.dx + offset);
  }
}

}  // namespace pfc::batch_norm
