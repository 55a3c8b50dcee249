#include "worker/head/row_copy.h"

#include <algorithm>
#include <vector>

#include "kernels/math/bfloat16.h"

namespace pfc {
namespace {

// Number of elements converted at a time, which bounds the memory.
constexpr std::int64_t kAtOnce = std::int64_t{4} << 20;

/// Calls f(piece of rows, its first element) for pieces of at most kAtOnce elements.
template <typename F>
void each_piece(const Tensor& rows, const F& f) {
  const std::int64_t dimension = rows.shape[1];
  const std::int64_t step = std::max<std::int64_t>(1, kAtOnce / dimension);
  for (std::int64_t begin = 0; begin < rows.shape[0]; begin += step) {
    f(row_range(rows, begin, std::min(step, rows.shape[0] - begin)), begin * dimension);
  }
}

/// Computes to[i] = f(from[i]) on all threads of this worker.
template <typename From, typename To, typename F>
void convert(const From* from, To* to, std::int64_t n, const F& f) {
#pragma omp parallel for simd schedule(static) if (parallel : n > 65536)
  for (std::int64_t i = 0; i < n; ++i) to[i] = f(from[i]);
}

}  // namespace

Tensor row_range(const Tensor& t, std::int64_t begin, std::int64_t count) {
  const std::int64_t dimension = t.shape[1];
  auto* const first = static_cast<std::byte*>(t.data) +
                      begin * dimension * static_cast<std::int64_t>(size_of(t.dtype));
  return {first, t.dtype, {count, dimension}};
}

void copy_rows_to_device(Ops& ops, const Tensor& rows, const float* host) {
  if (rows.dtype == DType::kFloat32) {
    ops.copy_to_device(rows, host);
    return;
  }
  std::vector<BFloat16> piece;
  each_piece(rows, [&](const Tensor& t, std::int64_t first) {
    piece.resize(static_cast<std::size_t>(t.elements()));
    convert(host + first, piece.data(), t.elements(), [](float x) { return nearest_bfloat16(x); });
    ops.copy_to_device(t, piece.data());
  });
}

void copy_rows_to_host(Ops& ops, float* host, const Tensor& rows) {
  if (rows.dtype == DType::kFloat32) return ops.copy_to_host(host, rows);
  std::vector<BFloat16> piece;
  each_piece(rows, [&](const Tensor& t, std::int64_t first) {
    piece.resize(static_cast<std::size_t>(t.elements()));
    ops.copy_to_host(piece.data(), t);
    convert(piece.data(), host + first, t.elements(), [](BFloat16 b) { return float_of(b); });
  });
}

}  // namespace pfc
