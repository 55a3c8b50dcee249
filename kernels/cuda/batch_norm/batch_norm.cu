#include <algorithm>

#include "kernels/cuda/batch_norm/batch_norm_kernels.h"
#include "kernels/cuda/ops/cuda_ops.h"

namespace pfc {
namespace batch_norm {

// The merging kernels have threads along x for adjacent channels, and threads along y for the
// blocks' sums.
constexpr unsigned kMergeRows = 32;

LaunchShape merge_shape(std::int64_t channels) {
  return {.blocks = dim3(static_cast<unsigned>((channels + kWarp - 1) / kWarp)),
          .threads = dim3(kWarp, kMergeRows)};
}

/// Adds values over the threads along y, in a fixed order. The sums are valid where threadIdx.y is
/// 0. REQUIRES: all threads of the block call it, once.
template <int Kinds>
__device__ __forceinline__ void sum_over_y(double (&values)[Kinds]) {
  __shared__ double shared[Kinds][kMergeRows][kWarp];
#pragma unroll
  for (int kind = 0; kind < Kinds; ++kind) {
    shared[kind][threadIdx.y][threadIdx.x] = values[kind];
  }
  for (unsigned rows = kMergeRows / 2; rows > 0; rows /= 2) {
    __syncthreads();
    if (threadIdx.y >= rows) continue;
#pragma unroll
    for (int kind = 0; kind < Kinds; ++kind) {
      values[kind] += shared[kind][threadIdx.y + rows][threadIdx.x];
      shared[kind][threadIdx.y][threadIdx.x] = values[kind];
    }
  }
}

__global__ void __launch_bounds__(kWarp* kMergeRows)
    merge_moments_kernel(std::int64_t rows, std::int64_t channels, unsigned blocks,
                         unsigned rows_at_once, const double* __restrict__ partial, float* mean,
                         float* variance) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const bool active = channel < channels;
  const std::int64_t behind = std::int64_t{blocks} * channels;
  const double shift = active ? partial[channel] : 0;
  double sums[3] = {};  // of n d, n d^2 and m2; d is a block's mean minus the shift
  if (active) {
#pragma unroll 4
    for (std::int64_t block = threadIdx.y; block < blocks; block += kMergeRows) {
      const std::int64_t from = block * channels + channel;
      const auto n = static_cast<double>(rows_of_block(rows, block, blocks, rows_at_once));
      const double d = n == 0 ? 0 : partial[from] - shift;
      sums[0] += n * d;
      sums[1] += n * d * d;
      sums[2] += n == 0 ? 0 : partial[from + behind];
    }
  }
  sum_over_y(sums);
  if (!active || threadIdx.y != 0) return;
  const double d = sums[0] / static_cast<double>(rows);
  mean[channel] = static_cast<float>(shift + d);
  const double biased = (sums[1] + sums[2]) / static_cast<double>(rows) - d * d;
  variance[channel] = biased > 0 ? static_cast<float>(biased) : 0.f;
}

__global__ void __launch_bounds__(kWarp* kMergeRows)
    merge_sums_kernel(std::int64_t channels, unsigned blocks, const double* __restrict__ partial,
                      const float* variance, float eps, float* sum_dz, float* sum_dz_xhat,
                      float* dslope) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const bool active = channel < channels;
  const std::int64_t behind = std::int64_t{blocks} * channels;
  double sums[3] = {};
  if (active) {
#pragma unroll 4
    for (std::int64_t block = threadIdx.y; block < blocks; block += kMergeRows) {
      const std::int64_t from = block * channels + channel;
      sums[0] += partial[from];
      sums[1] += partial[from + behind];
      if (dslope != nullptr) sums[2] += partial[from + 2 * behind];
    }
  }
  sum_over_y(sums);
  if (!active || threadIdx.y != 0) return;
  sum_dz[channel] = static_cast<float>(sums[0]);
  sum_dz_xhat[channel] =
      static_cast<float>(sums[1] * static_cast<double>(inverse_deviation(variance[channel], eps)));
  if (dslope != nullptr) dslope[channel] = static_cast<float>(sums[2]);
}

}  // namespace batch_norm

namespace {

using batch_norm::ApplyArguments;
using batch_norm::ForwardArguments;
using batch_norm::Parameters;

constexpr int kMostKinds = 3;   // kinds of sums per pass
constexpr int kMostBlocks = 8;  // per multiprocessor, which holds 2048 threads

/// Returns the launch of a pass: threadIdx.x and blockIdx.y index channels, threadIdx.y and
/// blockIdx.x rows. `blocks`: how many blocks the launch should have, as many as run at once.
LaunchShape shape_of(const BatchNormShape& s, int at_once, std::int64_t blocks) {
  const std::int64_t lanes = (s.channels + at_once - 1) / at_once;
  unsigned width = 1;
  while (width < kWarp && width < lanes) width *= 2;
  const unsigned height = kThreads / width;
  const std::int64_t across = (lanes + width - 1) / width;
  const std::int64_t down =
      std::clamp<std::int64_t>(blocks / across, 1, (s.rows + height - 1) / height);
  return {.blocks = dim3(static_cast<unsigned>(down), static_cast<unsigned>(across)),
          .threads = dim3(width, height)};
}

template <typename F>
void with_bool(bool value, const F& f) {
  if (value) {
    f(std::true_type{});
  } else {
    f(std::false_type{});
  }
}

class CudaBatchNorm : public BatchNorm {
 public:
  CudaBatchNorm(CudaDevice& device, const BatchNormShape& shape)
      : BatchNorm(shape, device.activations), device_(device) {
    const std::int64_t most = std::int64_t{multiprocessors()} * kMostBlocks;
    const unsigned blocks =
        std::max(shape_of(shape, 1, most).blocks.x, shape_of(shape, kPack, most).blocks.x);
    device.scratch.reserve(sizeof(double) * kMostKinds * blocks *
                           static_cast<std::size_t>(shape.channels));
  }

 private:
  void run_statistics(const Tensor& x, const Tensor& mean, const Tensor& variance) override {
    pass(x.dtype, {&x}, [&](auto* type, auto width) {
      using T = std::remove_pointer_t<decltype(type)>;
      const LaunchShape shape = run("batch_norm.statistics", width,
                                    batch_norm::moments_kernel<T, width()>, rows<T>(x), partial());
      merge_moments(shape, mean, variance);
    });
  }

  void run_forward(const Forward& f) override {
    const Parameters p = parameters(f);
    pass(f.x.dtype, {&f.x, &f.residual, &f.y}, [&](auto* type, auto width) {
      using T = std::remove_pointer_t<decltype(type)>;
      const ForwardArguments<T> a{.x = rows<T>(f.x),
                                  .residual = rows<T>(f.residual),
                                  .y = rows<T>(f.y),
                                  .partial = partial()};
      with_bool(p.slope != nullptr, [&](auto slope) {
        with_bool(static_cast<bool>(f.y_mean), [&](auto moments) {
          const LaunchShape shape =
              run("batch_norm.forward", width,
                  batch_norm::forward_kernel<T, width(), slope(), moments()>, p, a);
          if (moments()) merge_moments(shape, f.y_mean, f.y_variance);
        });
      });
    });
  }

  void run_backward_reduce(const Backward& b) override {
    const Parameters p = parameters(b);
    float* const dslope = b.slope ? b.dslope.f32() : nullptr;
    pass(b.x.dtype, {&b.dy, &b.x}, [&](auto* type, auto width) {
      using T = std::remove_pointer_t<decltype(type)>;
      with_bool(p.slope != nullptr, [&](auto slope) {
        const LaunchShape shape =
            run("batch_norm.backward_reduce", width, batch_norm::reduce_kernel<T, width(), slope()>,
                p, rows<T>(b.dy), rows<T>(b.x), partial());
        launch("batch_norm.backward_reduce", batch_norm::merge_shape(shape_.channels),
               device_.compute.get(), batch_norm::merge_sums_kernel, shape_.channels,
               shape.blocks.x, partial(), p.variance, p.eps, b.sum_dz.f32(), b.sum_dz_xhat.f32(),
               dslope);
      });
    });
  }

  void run_backward_apply(const Backward& b) override {
    const Parameters p = parameters(b);
    pass(b.x.dtype, {&b.dy, &b.x, &b.add, &b.dx}, [&](auto* type, auto width) {
      using T = std::remove_pointer_t<decltype(type)>;
      const ApplyArguments<T> a{.dy = rows<T>(b.dy),
                                .x = rows<T>(b.x),
                                .add = rows<T>(b.add),
                                .dx = rows<T>(b.dx),
                                .sum_dz = b.sum_dz.f32(),
                                .sum_dz_xhat = b.sum_dz_xhat.f32(),
                                .total_rows = static_cast<float>(b.total_rows)};
      with_bool(p.slope != nullptr, [&](auto slope) {
        run("batch_norm.backward_apply", width, batch_norm::apply_kernel<T, width(), slope()>, p,
            a);
      });
    });
  }

  // Calls f(null pointer to the element type, number of channels that a thread processes at once).
  template <typename F>
  void pass(DType type, std::initializer_list<const Tensor*> tensors, const F& f) {
    bool packs = shape_.channels % kPack == 0;
    for (const Tensor* t : tensors) {
      packs = packs && aligned(t->data);
    }
    with_element_type(type, [&](auto* element) {
      if (packs) {
        f(element, std::integral_constant<int, kPack>{});
      } else {
        f(element, std::integral_constant<int, 1>{});
      }
    });
  }

  /// Launches a kernel whose first two arguments are the numbers of rows and channels.
  template <typename Kernel, typename... Arguments>
  LaunchShape run(const char* name, int at_once, Kernel* kernel, const Arguments&... arguments) {
    const int resident = std::min(resident_blocks(kernel, kThreads), kMostBlocks);
    const LaunchShape shape = shape_of(shape_, at_once, std::int64_t{multiprocessors()} * resident);
    launch(name, shape, device_.compute.get(), kernel, shape_.rows, shape_.channels, arguments...);
    return shape;
  }

  template <typename Pass>
  [[nodiscard]] Parameters parameters(const Pass& p) const {
    return {.mean = p.mean.f32(),
            .variance = p.variance.f32(),
            .gamma = p.gamma.f32(),
            .beta = p.beta.f32(),
            .slope = p.slope ? p.slope.f32() : nullptr,
            .eps = shape_.eps};
  }

  void merge_moments(const LaunchShape& of_parts, const Tensor& mean, const Tensor& variance) {
    launch("batch_norm.statistics", batch_norm::merge_shape(shape_.channels), device_.compute.get(),
           batch_norm::merge_moments_kernel, shape_.rows, shape_.channels, of_parts.blocks.x,
           of_parts.threads.y, partial(), mean.f32(), variance.f32());
  }

  /// Returns nullptr for a missing tensor.
  template <typename T>
  [[nodiscard]] static T* rows(const Tensor& t) {
    return static_cast<T*>(t.data);
  }
  [[nodiscard]] double* partial() const {
    return reinterpret_cast<double*>(device_.scratch.data());
  }
  [[nodiscard]] int multiprocessors() const { return device_.properties.multiProcessorCount; }

  CudaDevice& device_;
};

}  // namespace

std::unique_ptr<BatchNorm> CudaOps::batch_norm(const BatchNormShape& shape) {
  return std::make_unique<CudaBatchNorm>(device_, shape);
}

}  // namespace pfc
