#include <algorithm>
#include <type_traits>

#include "kernels/cuda/margin/teacher_logits.h"
#include "kernels/cuda/primitives/numbers.h"
#include "kernels/cuda/primitives/warps.h"

namespace pfc {
namespace {

constexpr int kDistilledSamples = 4;  // per lane
constexpr unsigned kDistilledColumns = kWarp * kDistilledSamples;

/// Returns logit / temperature. Limits the cosine to [-1, 1], because rounding may have moved it
/// outside. Keeps a NaN.
__device__ __forceinline__ float distilled_logit(const DistilledProducts& t, float cosine) {
  cosine = cosine > 1.f ? 1.f : cosine;
  cosine = cosine < -1.f ? -1.f : cosine;
  return cosine * t.scale;
}

// One warp per row.
template <typename T>
__global__ void gather_teacher_kernel(const T* centres, std::int64_t dimension, RowList active,
                                      std::int64_t count, std::int64_t padded,
                                      std::int64_t padded_dimension, T* to) {
  const std::int64_t i = index_of_warp();
  if (i >= padded) return;
  const std::int64_t row = i >= count               ? 0
                           : active.rows == nullptr ? active.first + i
                                                    : std::int64_t{active.rows[i]};
  const T* const from = centres + row * dimension;
  const bool packs = dimension % kPack == 0;
  for (std::int64_t k = threadIdx.x % kWarp * kPack; k < padded_dimension; k += kWarp * kPack) {
    Pack<T> numbers{};
    if (i < count && packs) {
      numbers = load_pack(from + k);
    } else if (i < count) {
      for (int e = 0; e < kPack && k + e < dimension; ++e) numbers.x[e] = from[k + e];
    }
    store_pack(to + i * padded_dimension + k, numbers);
  }
}

// A lane computes four samples, so a warp computes 128. The warps of a block and the slots divide
// the classes.
__global__ void __launch_bounds__(kThreads)
    fold_distilled_kernel(DistilledProducts t, double* all, bool first) {
  __shared__ float sums[kDistilledSums][kWarps][kDistilledColumns];
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned place = threadIdx.x % kWarp * kDistilledSamples;
  const std::int64_t column = std::int64_t{blockIdx.x} * kDistilledColumns + place;
  float network[kDistilledSamples] = {}, teacher[kDistilledSamples] = {},
        difference[kDistilledSamples] = {};
  const std::int64_t stride = std::int64_t{gridDim.y} * kWarps;
  std::int64_t row = std::int64_t{blockIdx.y} * kWarps + warp;
  for (; column < t.samples && row < t.classes; row += stride) {
    const float inverse = t.inverse_norms[row];
    const std::int64_t at = row * t.samples + column;
    const float4 p = *reinterpret_cast<const float4*>(t.products + at);
    const float4 c = *reinterpret_cast<const float4*>(t.cosines + at);
    const float products[] = {p.x, p.y, p.z, p.w}, cosines[] = {c.x, c.y, c.z, c.w};
#pragma unroll
    for (int k = 0; k < kDistilledSamples; ++k) {
      const float a = distilled_logit(t, products[k] * inverse);
      const float b = distilled_logit(t, cosines[k]);
      const float e = __expf(b);
      network[k] += __expf(a);
      teacher[k] += e;
      difference[k] += e * (b - a);
    }
  }
#pragma unroll
  for (int k = 0; k < kDistilledSamples; ++k) {
    sums[0][warp][place + k] = network[k];
    sums[1][warp][place + k] = teacher[k];
    sums[2][warp][place + k] = difference[k];
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kDistilledSums * kDistilledColumns; i += kThreads) {
    const unsigned which = i / kDistilledColumns, of_block = i % kDistilledColumns;
    const std::int64_t sample = std::int64_t{blockIdx.x} * kDistilledColumns + of_block;
    if (sample >= t.samples) continue;
    double sum = 0;
    for (unsigned w = 0; w < kWarps; ++w) {
      sum += static_cast<double>(sums[which][w][of_block]);
    }
    double& slot = all[(std::int64_t{which} * gridDim.y + blockIdx.y) * t.samples + sample];
    slot = first ? sum : slot + sum;
  }
}

__global__ void distilled_sums_kernel(const double* sums, int slots, std::int64_t samples,
                                      std::int64_t padded, float* out) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= kDistilledSums * samples) return;
  double sum = 0;
  for (int slot = 0; slot < slots; ++slot) {
    sum += sums[(i / samples * slots + slot) * padded + i % samples];
  }
  out[i] = static_cast<float>(sum);
}

// Runs in one block, so the order of the loss's sum is fixed.
__global__ void combine_distilled_kernel(const float* sums, std::int64_t samples,
                                         std::int64_t padded, double temperature, float* inverse,
                                         double* loss) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < padded; i += kThreads) {
    const bool there = i < samples;
    inverse[i] = there ? 1.f / sums[i] : 0.f;
    inverse[padded + i] = there ? 1.f / sums[samples + i] : 0.f;
    if (!there) continue;
    sum += distilled_loss({.network = static_cast<double>(sums[i]),
                           .teacher = static_cast<double>(sums[samples + i]),
                           .difference = static_cast<double>(sums[2 * samples + i])},
                          temperature);
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) *loss = sum;
}

/// Each lane loops over classes for one pack of samples. It keeps the samples' values in registers.
template <typename Factor>
__global__ void __launch_bounds__(kThreads)
    add_distilled_kernel(DistilledProducts t, const float* inverse_sums, float factor,
                         Factor* out) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * kWarp + threadIdx.x % kWarp) * kPack;
  if (column >= t.samples) return;
  Pack<float> network = load_pack(inverse_sums + column);
  Pack<float> teacher = load_pack(inverse_sums + t.samples + column);
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    network.x[k] *= factor;
    teacher.x[k] *= factor;
  }
  const std::int64_t stride = std::int64_t{gridDim.y} * kWarps;
  std::int64_t row = std::int64_t{blockIdx.y} * kWarps + threadIdx.x / kWarp;
  for (; row < t.classes; row += stride) {
    const float inverse = t.inverse_norms[row];
    const std::int64_t at = row * t.samples + column;
    const Pack<float> products = load_pack(t.products + at), cosines = load_pack(t.cosines + at);
    Pack<Factor> factors = load_pack(out + at);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const float a = distilled_logit(t, products.x[k] * inverse);
      const float b = distilled_logit(t, cosines.x[k]);
      const float gradient = __expf(a) * network.x[k] - __expf(b) * teacher.x[k];
      factors.x[k] = from_float<Factor>(to_float(factors.x[k]) + gradient * inverse);
    }
    store_pack(out + at, factors);
  }
}

unsigned blocks_of(std::int64_t n, std::int64_t each) {
  return static_cast<unsigned>((n + each - 1) / each);
}

}  // namespace

void gather_teacher(const CudaDevice& device, const Tensor& centres, const RowList& active,
                    std::int64_t count, const Tensor& to) {
  const auto go = [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    launch("gathering the teacher's centres", one_warp_each(to.shape[0]), device.compute.get(),
           gather_teacher_kernel<T>, static_cast<const T*>(centres.data), centres.shape[1], active,
           count, to.shape[0], to.shape[1], out);
  };
  to.dtype == DType::kFloat32 ? go(to.f32()) : go(static_cast<__nv_bfloat16*>(to.data));
}

void fold_distilled(const CudaDevice& device, const DistilledProducts& tile, double* sums,
                    int slots, bool first) {
  const dim3 blocks(blocks_of(tile.samples, kDistilledColumns), static_cast<unsigned>(slots));
  launch("folding the teacher's logits", {.blocks = blocks, .threads = dim3(kThreads)},
         device.compute.get(), fold_distilled_kernel, tile, sums, first);
}

void write_distilled_sums(const CudaDevice& device, const double* sums, int slots,
                          std::int64_t samples, std::int64_t padded, float* out) {
  launch("sums of the teacher's logits",
         {.blocks = dim3(blocks_of(kDistilledSums * samples, kThreads)), .threads = dim3(kThreads)},
         device.compute.get(), distilled_sums_kernel, sums, slots, samples, padded, out);
}

void combine_distilled(const CudaDevice& device, const float* sums, std::int64_t samples,
                       std::int64_t padded, double temperature, float* inverse_sums, double* loss) {
  launch("the loss of logits", {.blocks = dim3(1), .threads = dim3(kThreads)}, device.compute.get(),
         combine_distilled_kernel, sums, samples, padded, temperature, inverse_sums, loss);
}

void add_distilled_factors(const CudaDevice& device, const DistilledProducts& tile,
                           const float* inverse_sums, float factor, const Tensor& out) {
  const unsigned columns = blocks_of(tile.samples, std::int64_t{kWarp} * kPack);
  constexpr unsigned kBlocksEach = 4;
  const auto most = static_cast<unsigned>(device.properties.multiProcessorCount) * kBlocksEach;
  const unsigned rows = std::min(blocks_of(tile.classes, kWarps), std::max(most / columns, 1u));
  const LaunchShape shape{.blocks = dim3(columns, rows), .threads = dim3(kThreads)};
  const auto go = [&](auto* to) {
    launch("adding the teacher's gradients", shape, device.compute.get(),
           add_distilled_kernel<std::remove_pointer_t<decltype(to)>>, tile, inverse_sums, factor,
           to);
  };
  out.dtype == DType::kFloat32 ? go(out.f32()) : go(static_cast<__nv_bfloat16*>(out.data));
}

}  // namespace pfc
