#include "kernels/cpu/centre_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pfc {
namespace {

CentrePrecision precision_of(const CentreTable& t) {
  const bool half_weight = t.weight.dtype == DType::kBFloat16;
  const bool half_momentum = t.momentum.dtype == DType::kBFloat16;
  check(half_momentum || !half_weight, "margin softmax: bf16 centres with fp32 momentum");
  check(!t.second || t.second.dtype == t.momentum.dtype, "margin softmax: AdamW's two moments");
  if (half_weight) return CentrePrecision::kBf16;
  return half_momentum ? CentrePrecision::kBf16Momentum : CentrePrecision::kFp32;
}

void prefetch(const void* row, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  const auto* line = static_cast<const std::byte*>(row);
  for (std::int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(line + i);
}

std::int64_t row_bytes(const Tensor& t) {
  return t.shape[1] * static_cast<std::int64_t>(size_of(t.dtype));
}

}  // namespace

CentreRows::CentreRows(const CentreTable& table, std::uint64_t seed, const VectorKernels& kernels)
    : table_(table),
      kernels_(kernels),
      seed_(seed),
      first_(table.first_class),
      dimension_(table.weight.shape[1]),
      inverse_norm_(table.inverse_norm.f32()),
      precision_(precision_of(table)) {}

void CentreRows::allocate(Scratch& scratch, DType type, std::int64_t classes) const {
  const auto d = static_cast<std::size_t>(dimension_);
  const std::size_t rows = d * static_cast<std::size_t>(classes);
  type == DType::kFloat32 ? scratch.floats.resize(rows) : scratch.halves.resize(rows);
  scratch.row.resize(d);
}

std::byte* CentreRows::address(const Tensor& t, std::int64_t c) const {
  return static_cast<std::byte*>(t.data) + (c - first_) * row_bytes(t);
}

const void* CentreRows::gather(std::span<const std::int64_t> classes, DType type,
                               std::int64_t padded, Scratch& scratch) const {
  const auto count = static_cast<std::int64_t>(classes.size());
  const DType kept = table_.weight.dtype;
  const bool in_a_row = classes.back() - classes.front() == count - 1;
  if (in_a_row && type == kept && padded <= count) return address(table_.weight, classes.front());

  constexpr std::int64_t kAhead = 8;  // rows
  const std::int64_t bytes = row_bytes(table_.weight);
  for (std::int64_t i = 0; i < count; ++i) {
    if (!in_a_row && i + kAhead < count) {
      prefetch(address(table_.weight, classes[static_cast<std::size_t>(i + kAhead)]), bytes);
    }
    const std::byte* from = address(table_.weight, classes[static_cast<std::size_t>(i)]);
    copy_row(from, type, i, scratch);
  }
  if (type == DType::kFloat32) return scratch.floats.data();
  if (padded > count) {
    std::fill_n(scratch.halves.data() + count * dimension_, (padded - count) * dimension_, 0);
  }
  return scratch.halves.data();
}

void CentreRows::copy_row(const std::byte* from, DType type, std::int64_t place,
                          Scratch& scratch) const {
  const std::int64_t d = dimension_;
  const bool kept_as_float = table_.weight.dtype == DType::kFloat32;
  const auto* floats = reinterpret_cast<const float*>(from);
  const auto* halves = reinterpret_cast<const BFloat16*>(from);
  if (type == DType::kFloat32) {
    float* const to = scratch.floats.data() + place * d;
    kept_as_float ? static_cast<void>(std::copy_n(floats, d, to))
                  : kernels_.to_float(halves, to, d);
  } else {
    BFloat16* const to = scratch.halves.data() + place * d;
    kept_as_float ? kernels_.to_bfloat16(floats, to, d)
                  : static_cast<void>(std::copy_n(halves, d, to));
  }
}

const float* CentreRows::row(std::int64_t c, Scratch& scratch) const {
  const std::byte* from = address(table_.weight, c);
  if (precision_ != CentrePrecision::kBf16) return reinterpret_cast<const float*>(from);
  kernels_.to_float(reinterpret_cast<const BFloat16*>(from), scratch.row.data(), dimension_);
  return scratch.row.data();
}

CentreRow CentreRows::describe(std::int64_t c, const CentreGradient& g) const {
  return {.n = dimension_,
          .gradient = g.gradient,
          .inverse_norm = inverse_norm(c),
          .along = g.along,
          .weight = address(table_.weight, c),
          .momentum = address(table_.momentum, c),
          .second = table_.second ? address(table_.second, c) : nullptr,
          .key = {}};
}

void CentreRows::prefetch_state(std::int64_t c) const {
  prefetch(address(table_.momentum, c), row_bytes(table_.momentum));
  if (table_.second) prefetch(address(table_.second, c), row_bytes(table_.second));
}

void CentreRows::move(std::int64_t c, const CentreGradient& g, const UpdateRule& rule) const {
  CentreRow row = describe(c, g);
  if (precision_ != CentrePrecision::kFp32) row.key = rounding_key(seed_, rule.number, c);
  set_inverse_norm(c, rule.optimizer == OptimizerKind::kSgd
                          ? kernels_.centre_sgd(precision_, rule.sgd, row)
                          : kernels_.centre_adamw(precision_, rule.adamw, row));
}

void CentreRows::add_gradient(std::int64_t c, const CentreGradient& g, float* sum) const {
  kernels_.add_centre_gradient(precision_, describe(c, g), sum);
}

void CentreRows::compute_inverse_norm(std::int64_t c) const {
  set_inverse_norm(c, kernels_.centre_squares(precision_, address(table_.weight, c), dimension_));
}

void CentreRows::set_inverse_norm(std::int64_t c, double squares) const {
  constexpr double kLargest = std::numeric_limits<float>::max();
  inverse_norm_[c - first_] =
      squares == 0 ? 0.f : static_cast<float>(std::min(1 / std::sqrt(squares), kLargest));
}

}  // namespace pfc
