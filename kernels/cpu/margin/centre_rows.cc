#include "kernels/cpu/margin/centre_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pfc {
namespace {

void prefetch(const void* row, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;  // bytes
  const auto* line = static_cast<const std::byte*>(row);
  for (std::int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(line + i);
}

std::int64_t row_bytes(const Tensor& t) {
  return t.shape[1] * static_cast<std::int64_t>(size_of(t.dtype));
}

}  // namespace

CentreRows::CentreRows(const CentreTable& table, const MarginSoftmaxOptions& options,
                       const VectorKernels& kernels)
    : table_(table),
      kernels_(kernels),
      seed_(options.seed),
      plain_(is_plain(options)),
      sub_centres_(options.sub_centres),
      first_(table.first_class * sub_centres_),
      dimension_(table.weight.shape[1]),
      inverse_norm_(table.inverse_norm.f32()),
      updated_(table.updated.data()),
      precision_(precision_of(table)) {}

float CentreRows::inverse_of(double squares) const {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (plain_) return 1.f;
  return squares == 0 ? 0.f : static_cast<float>(std::min(1 / std::sqrt(squares), kLargest));
}

float* CentreRows::scale_of(const ScaledRows& t, std::int64_t c) const {
  return t.scales ? t.scales.f32() + (c - first_) : nullptr;
}

std::byte* CentreRows::address(const Tensor& t, std::int64_t c) const {
  return static_cast<std::byte*>(t.data) + (c - first_) * row_bytes(t);
}

const void* CentreRows::gather(const ActiveRows& rows, const TileLayout& layout, bool prefetched,
                               Scratch& scratch, float* inverse_norms) const {
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t first = rows[0].c, last = rows[rows.size() - 1].c;
  const bool in_a_row = last - first == count - 1;
  const bool up_to_date = std::ranges::all_of(rows.index, [](std::uint32_t i) { return i == 0; });
  if (in_a_row && up_to_date && layout.type == table_.weight.dtype && layout.stride == dimension_ &&
      layout.padded <= count) {
    std::copy_n(inverse_norm_ + (first - first_), count, inverse_norms);
    return address(table_.weight, first);
  }

  constexpr std::int64_t kAhead = 8;  // rows
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count && !prefetched && !(in_a_row && up_to_date)) {
      prefetch_row(rows[static_cast<std::size_t>(i + kAhead)]);
    }
    const ActiveRow row = rows[static_cast<std::size_t>(i)];
    const std::int64_t place = i * layout.stride;
    inverse_norms[i] = layout.type == DType::kFloat32
                           ? copy_row(row, scratch.floats.data() + place, nullptr)
                           : copy_row(row, nullptr, scratch.halves.data() + place);
  }
  if (layout.type == DType::kFloat32) return scratch.floats.data();
  if (layout.padded > count) {
    std::fill_n(scratch.halves.data() + count * layout.stride,
                (layout.padded - count) * layout.stride, BFloat16{0});
  }
  return scratch.halves.data();
}

void CentreRows::add_stretches(const ActiveRow& row, bool state,
                               std::vector<Stretch>& stretches) const {
  const auto add = [&](const Tensor& t) {
    stretches.push_back({.begin = address(t, row.c), .bytes = row_bytes(t)});
  };
  add(table_.weight);
  if (!state && row.missed == nullptr) return;
  if (table_.momentum) add(table_.momentum);
  if (table_.second) add(table_.second);
}

float CentreRows::copy_row(const ActiveRow& row, float* floats, BFloat16* halves) const {
  const float* const stored = inverse_norm_ + (row.c - first_);
  if (row.missed == nullptr && !is_one_byte(precision_)) {
    copy_numbers(address(table_.weight, row.c), floats, halves);
    return *stored;
  }
  const double squares =
      kernels_.centre_caught_up(precision_, {.n = dimension_,
                                             .weight = address(table_.weight, row.c),
                                             .momentum = address_or_null(table_.momentum, row.c),
                                             .second = address_or_null(table_.second, row.c),
                                             .weight_scale = scale_of(table_.weight, row.c),
                                             .momentum_scale = scale_of(table_.momentum, row.c),
                                             .missed = row.missed,
                                             .floats = floats,
                                             .halves = halves});
  return row.missed == nullptr ? *stored : inverse_of(squares);
}

/// Copies a row of float32 or bfloat16 numbers.
void CentreRows::copy_numbers(const void* row, float* floats, BFloat16* halves) const {
  const auto* const from_floats = static_cast<const float*>(row);
  const auto* const from_halves = static_cast<const BFloat16*>(row);
  const bool kept_as_float = precision_ != CentrePrecision::kBf16;
  if (floats != nullptr) {
    kept_as_float ? static_cast<void>(std::copy_n(from_floats, dimension_, floats))
                  : kernels_.to_float(from_halves, floats, dimension_);
  } else {
    kept_as_float ? kernels_.to_bfloat16(from_floats, halves, dimension_)
                  : static_cast<void>(std::copy_n(from_halves, dimension_, halves));
  }
}

const float* CentreRows::row(const ActiveRow& row, Scratch& scratch) const {
  if (row.missed == nullptr && table_.weight.dtype == DType::kFloat32) {
    return reinterpret_cast<const float*>(address(table_.weight, row.c));
  }
  copy_row(row, scratch.row.data(), nullptr);
  return scratch.row.data();
}

CentreRow CentreRows::describe(const ActiveRow& row, const CentreGradient& g,
                               Scratch& scratch) const {
  return {.n = dimension_,
          .gradient = g.gradient,
          .inverse_norm = g.inverse_norm,
          .along = g.along,
          .weight = address(table_.weight, row.c),
          .momentum = address_or_null(table_.momentum, row.c),
          .second = address_or_null(table_.second, row.c),
          .weight_scale = scale_of(table_.weight, row.c),
          .momentum_scale = scale_of(table_.momentum, row.c),
          .new_weight = scratch.weight.data(),
          .new_momentum = scratch.momentum.data(),
          .key = {},
          .missed = row.missed};
}

/// Prefetches the data from which the centre is computed: the weights, and if there are missed
/// updates also the optimizer's state.
void CentreRows::prefetch_row(const ActiveRow& row) const {
  prefetch(address(table_.weight, row.c), row_bytes(table_.weight));
  if (row.missed != nullptr) prefetch_state(row);
}

void CentreRows::prefetch_state(const ActiveRow& row) const {
  if (table_.momentum) prefetch(address(table_.momentum, row.c), row_bytes(table_.momentum));
  if (table_.second) prefetch(address(table_.second, row.c), row_bytes(table_.second));
}

void CentreRows::move(const ActiveRow& active, const CentreGradient& g, const UpdateRule& rule,
                      Scratch& scratch) const {
  CentreRow row = describe(active, g, scratch);
  if (precision_ != CentrePrecision::kFp32) row.key = rounding_key(seed_, rule.number, active.c);
  const double squares = rule.optimizer == OptimizerKind::kSgd
                             ? kernels_.centre_sgd(precision_, rule.sgd, row)
                             : kernels_.centre_adamw(precision_, rule.adamw, row);
  inverse_norm_[active.c - first_] = inverse_of(squares);
  updated_[(active.c - first_) / sub_centres_] = rule.updated;
}

void CentreRows::add_gradient(const ActiveRow& row, const CentreGradient& g, float* sum,
                              Scratch& scratch) const {
  kernels_.add_centre_gradient(precision_, describe(row, g, scratch), sum);
}

void CentreRows::settle(const ActiveRow& active, std::int32_t count, Scratch& scratch) const {
  if (active.missed == nullptr) return;
  CentreRow row = describe(active, {}, scratch);
  if (precision_ != CentrePrecision::kFp32) row.key = rounding_key(seed_, count, active.c);
  inverse_norm_[active.c - first_] = inverse_of(kernels_.centre_settle(precision_, row));
  updated_[(active.c - first_) / sub_centres_] = count;
}

void CentreRows::compute_inverse_norm(std::int64_t c) const {
  inverse_norm_[c - first_] =
      inverse_of(kernels_.centre_squares(precision_, {.n = dimension_,
                                                      .weight = address(table_.weight, c),
                                                      .weight_scale = scale_of(table_.weight, c)}));
}

}  // namespace pfc
