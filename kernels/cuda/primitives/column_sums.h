// Sums over the rows of matrices, column by column. Blocks divide columns and rows. A second kernel
// adds the parts of the rows in a fixed order.
#pragma once

#include <algorithm>

#include "kernels/cuda/primitives/warps.h"
#include "kernels/cuda/runtime/device.h"

namespace pfc {

/// The lanes of a warp read 32 adjacent columns; the 8 warps of a block divide its rows.
constexpr unsigned kSumWarps = 8;

/// Sums columns: values(row, column, out) sets out[kKinds] for an element, and the sums of each
/// part of the rows are written to parts [kKinds, parts, n].
template <int kKinds, typename Values>
__global__ void column_parts_kernel(std::int64_t rows, std::int64_t n, Values values,
                                    double* parts) {
  __shared__ double shared[kKinds][kSumWarps][kWarp];
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const std::int64_t begin = rows * blockIdx.y / gridDim.y,
                     end = rows * (blockIdx.y + 1) / gridDim.y;
  double sums[kKinds] = {};
  if (column < n) {
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kSumWarps) {
      float out[kKinds];
      values(row, column, out);
#pragma unroll
      for (int kind = 0; kind < kKinds; ++kind) sums[kind] += static_cast<double>(out[kind]);
    }
  }
#pragma unroll
  for (int kind = 0; kind < kKinds; ++kind) shared[kind][threadIdx.y][threadIdx.x] = sums[kind];
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
#pragma unroll
  for (int kind = 0; kind < kKinds; ++kind) {
    double total = 0;
    for (unsigned i = 0; i < kSumWarps; ++i) total += shared[kind][i][threadIdx.x];
    parts[(kind * std::int64_t{gridDim.y} + blockIdx.y) * n + column] = total;
  }
}

struct ColumnSums {
  float* sums[2];  ///< [n]; nullptr: not needed
};

template <int kKinds>
__global__ void add_column_parts_kernel(std::int64_t n, unsigned count, const double* parts,
                                        bool accumulate, ColumnSums to) {
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= n) return;
#pragma unroll
  for (int kind = 0; kind < kKinds; ++kind) {
    float* const sums = to.sums[kind];
    if (sums == nullptr) continue;
    double total = accumulate ? static_cast<double>(sums[column]) : 0.0;
    for (unsigned part = 0; part < count; ++part) {
      total += parts[(kind * std::int64_t{count} + part) * n + column];
    }
    sums[column] = static_cast<float>(total);
  }
}

/// Enqueues column sums over `rows` of the numbers set by `values`. Uses the device's scratch.
template <int kKinds, typename Values>
void sum_columns(const char* name, CudaDevice& device, std::int64_t rows, std::int64_t n,
                 const Values& values, bool accumulate, const ColumnSums& to) {
  constexpr std::int64_t kRowsEach = 256, kMostParts = 64;
  const auto strips = static_cast<unsigned>((n + kWarp - 1) / kWarp);
  const std::size_t bytes_each = sizeof(double) * kKinds * static_cast<std::size_t>(n);
  const auto fitting = static_cast<std::int64_t>(device.scratch.bytes() / bytes_each);
  check(fitting > 0, "sum_columns: too little scratch");
  const auto parts = static_cast<unsigned>(
      std::clamp<std::int64_t>(rows / kRowsEach, 1, std::min(fitting, kMostParts)));
  auto* const scratch = reinterpret_cast<double*>(device.scratch.data());
  launch(name, {.blocks = dim3(strips, parts), .threads = dim3(kWarp, kSumWarps)},
         device.compute.get(), column_parts_kernel<kKinds, Values>, rows, n, values, scratch);
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  launch(name, {.blocks = dim3(blocks), .threads = dim3(kThreads)}, device.compute.get(),
         add_column_parts_kernel<kKinds>, n, parts, static_cast<const double*>(scratch), accumulate,
         to);
}

}  // namespace pfc
