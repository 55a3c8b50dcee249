#include "worker/head/row_copy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/math/bfloat16.h"

namespace pfc {
namespace {

// Number of elements converted at a time, which bounds the memory.
constexpr std::int64_t kAtOnce = std::int64_t{4} << 20;

/// Calls f(piece of rows, its first element) for pieces of at most kAtOnce elements.
template <typename F>
void each_piece(const ScaledRows& rows, const F& f) {
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

/// Host copies of a piece of rows of one-byte numbers and of their scales.
struct OneByteRows {
  explicit OneByteRows(const ScaledRows& rows)
      : format(one_byte_format(rows.dtype)),
        size(rows.elements() / std::max<std::int64_t>(1, rows.scales.elements())),
        codes(static_cast<std::size_t>(rows.elements())),
        scales(static_cast<std::size_t>(rows.scales.elements())) {}

  /// Calls f(row of codes, its scale, its numbers in `host`) for each centre. Number is float or
  /// const float.
  template <typename Number, typename F>
  void each(Number* host, const F& f) {
#pragma omp parallel for schedule(static) if (parallel : std::ssize(codes) > 65536)
    for (std::int64_t i = 0; i < std::ssize(scales); ++i) {
      f(OneByteRow{.format = format, .codes = codes.data() + i * size, .n = size},
        scales[static_cast<std::size_t>(i)], host + i * size);
    }
  }

  OneByteFormat format;
  std::int64_t size;  // numbers of a centre
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

void copy_one_byte_rows_to_device(Ops& ops, const ScaledRows& rows, const float* host) {
  const VectorKernels& kernels = best_vector_kernels();
  OneByteRows piece(rows);
  std::vector<float> numbers(host, host + rows.elements());
  piece.each(numbers.data(), [&](const OneByteRow& row, float& scale, float* x) {
    scale = kernels.write_one_byte_row(row, {}, x);
  });
  ops.copy_to_device(rows, piece.codes.data());
  ops.copy_to_device(rows.scales, piece.scales.data());
}

void copy_one_byte_rows_to_host(Ops& ops, float* host, const ScaledRows& rows) {
  const VectorKernels& kernels = best_vector_kernels();
  OneByteRows piece(rows);
  ops.copy_to_host(piece.codes.data(), rows);
  ops.copy_to_host(piece.scales.data(), rows.scales);
  piece.each(host, [&](const OneByteRow& row, float scale, float* x) {
    kernels.read_one_byte_row(row, scale, x);
  });
}

}  // namespace

Tensor row_range(const Tensor& t, std::int64_t begin, std::int64_t count) {
  const std::int64_t dimension = t.shape[1];
  auto* const first = static_cast<std::byte*>(t.data) +
                      begin * dimension * static_cast<std::int64_t>(size_of(t.dtype));
  return {first, t.dtype, {count, dimension}};
}

ScaledRows row_range(const ScaledRows& t, std::int64_t begin, std::int64_t count) {
  const auto& numbers = static_cast<const Tensor&>(t);
  return {row_range(numbers, begin, count),
          t.scales ? row_range(t.scales, begin, count) : Tensor()};
}

void copy_rows_to_device(Ops& ops, const ScaledRows& rows, const float* host) {
  if (rows.dtype == DType::kFloat32) {
    ops.copy_to_device(rows, host);
    return;
  }
  each_piece(rows, [&](const ScaledRows& t, std::int64_t first) {
    if (is_one_byte(t.dtype)) return copy_one_byte_rows_to_device(ops, t, host + first);
    std::vector<BFloat16> piece(static_cast<std::size_t>(t.elements()));
    convert(host + first, piece.data(), t.elements(), [](float x) { return nearest_bfloat16(x); });
    ops.copy_to_device(t, piece.data());
  });
}

void copy_rows_to_host(Ops& ops, float* host, const ScaledRows& rows) {
  if (rows.dtype == DType::kFloat32) return ops.copy_to_host(host, rows);
  each_piece(rows, [&](const ScaledRows& t, std::int64_t first) {
    if (is_one_byte(t.dtype)) return copy_one_byte_rows_to_host(ops, host + first, t);
    std::vector<BFloat16> piece(static_cast<std::size_t>(t.elements()));
    ops.copy_to_host(piece.data(), t);
    convert(piece.data(), host + first, t.elements(), [](BFloat16 b) { return float_of(b); });
  });
}

bool normalise(std::span<float> row) {
  double squares = 0;
  for (const float x : row) squares += double{x} * double{x};
  const double length = std::sqrt(squares);
  if (!(length > 0) || !std::isfinite(length)) return false;
  for (float& x : row) x = static_cast<float>(double{x} / length);
  return true;
}

}  // namespace pfc
