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

/// Index of the random bits of a momentum's first element, beyond those of the centre. Only for
/// one-byte numbers: with 16-bit numbers, centre and momentum share the 32 bits of an element.
constexpr std::int64_t kMomentumElement = std::int64_t{1} << 31;

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
      precision_(precision_of(table)),
      kernel_precision_(is_one_byte(precision_) ? CentrePrecision::kFp32 : precision_) {}

float CentreRows::inverse_of(double squares) const {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (plain_) return 1.f;
  return squares == 0 ? 0.f : static_cast<float>(std::min(1 / std::sqrt(squares), kLargest));
}

OneByteRow CentreRows::codes(const ScaledRows& t, std::int64_t c) const {
  return {.format = one_byte_format(t.dtype),
          .codes = reinterpret_cast<std::uint8_t*>(address(t, c)),
          .n = dimension_};
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
    if (row.missed == nullptr) {
      copy_row(row.c, layout, i, scratch);
      inverse_norms[i] = inverse_norm_[row.c - first_];
    } else {
      const std::int64_t place = i * layout.stride;
      inverse_norms[i] = layout.type == DType::kFloat32
                             ? catch_up_row(row, scratch.floats.data() + place, nullptr, scratch)
                             : catch_up_row(row, nullptr, scratch.halves.data() + place, scratch);
    }
  }
  if (layout.type == DType::kFloat32) return scratch.floats.data();
  if (layout.padded > count) {
    std::fill_n(scratch.halves.data() + count * layout.stride,
                (layout.padded - count) * layout.stride, BFloat16{0});
  }
  return scratch.halves.data();
}

float CentreRows::catch_up_row(const ActiveRow& row, float* floats, BFloat16* halves,
                               Scratch& scratch) const {
  return inverse_of(
      kernels_.centre_caught_up(kernel_precision_, {.n = dimension_,
                                                    .weight = weight_of(row.c, scratch),
                                                    .momentum = momentum_of(row.c, scratch),
                                                    .second = second_of(row.c),
                                                    .missed = *row.missed,
                                                    .floats = floats,
                                                    .halves = halves}));
}

void CentreRows::read_codes(const ScaledRows& t, std::int64_t c, float* to) const {
  kernels_.read_one_byte_row(codes(t, c), t.scales.f32()[c - first_], to);
}

void CentreRows::write_codes(const ScaledRows& t, std::int64_t c, const RowRounding& rounding,
                             float* from) const {
  t.scales.f32()[c - first_] = kernels_.write_one_byte_row(codes(t, c), rounding, from);
}

void* CentreRows::weight_of(std::int64_t c, Scratch& scratch) const {
  if (!is_one_byte(precision_)) return address(table_.weight, c);
  read_codes(table_.weight, c, scratch.weight.data());
  return scratch.weight.data();
}

void* CentreRows::momentum_of(std::int64_t c, Scratch& scratch) const {
  if (table_.momentum && !is_one_byte(precision_)) return address(table_.momentum, c);
  if (table_.momentum) {
    read_codes(table_.momentum, c, scratch.momentum.data());
  } else {
    std::ranges::fill(scratch.momentum, 0.f);  // zeros of either type
  }
  return scratch.momentum.data();
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

void CentreRows::copy_row(std::int64_t c, const TileLayout& layout, std::int64_t place,
                          Scratch& scratch) const {
  const std::int64_t d = dimension_;
  if (is_one_byte(precision_) && layout.type == DType::kFloat32) {
    return read_codes(table_.weight, c, scratch.floats.data() + place * layout.stride);
  }
  const void* const from = weight_of(c, scratch);
  const bool kept_as_float = kernel_precision_ != CentrePrecision::kBf16;
  const auto* floats = static_cast<const float*>(from);
  const auto* halves = static_cast<const BFloat16*>(from);
  if (layout.type == DType::kFloat32) {
    float* const to = scratch.floats.data() + place * layout.stride;
    kept_as_float ? static_cast<void>(std::copy_n(floats, d, to))
                  : kernels_.to_float(halves, to, d);
  } else {
    BFloat16* const to = scratch.halves.data() + place * layout.stride;
    kept_as_float ? kernels_.to_bfloat16(floats, to, d)
                  : static_cast<void>(std::copy_n(halves, d, to));
  }
}

const float* CentreRows::row(const ActiveRow& row, Scratch& scratch) const {
  if (row.missed != nullptr) {
    catch_up_row(row, scratch.row.data(), nullptr, scratch);
    return scratch.row.data();
  }
  const void* from = weight_of(row.c, scratch);
  if (kernel_precision_ != CentrePrecision::kBf16) return static_cast<const float*>(from);
  kernels_.to_float(static_cast<const BFloat16*>(from), scratch.row.data(), dimension_);
  return scratch.row.data();
}

CentreRow CentreRows::describe(const ActiveRow& row, const CentreGradient& g,
                               Scratch& scratch) const {
  return {.n = dimension_,
          .gradient = g.gradient,
          .inverse_norm = g.inverse_norm,
          .along = g.along,
          .weight = weight_of(row.c, scratch),
          .momentum = momentum_of(row.c, scratch),
          .second = second_of(row.c),
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
                             ? kernels_.centre_sgd(kernel_precision_, rule.sgd, row)
                             : kernels_.centre_adamw(kernel_precision_, rule.adamw, row);
  finish(active, squares, row.key, scratch);
  updated_[(active.c - first_) / sub_centres_] = rule.updated;
}

void CentreRows::finish(const ActiveRow& row, double squares, const RoundingKey& key,
                        Scratch& scratch) const {
  if (is_one_byte(precision_)) {
    float* const weight = scratch.weight.data();
    write_codes(table_.weight, row.c, {.stochastic = true, .key = key}, weight);
    squares = kernels_.centre_squares(kernel_precision_, weight, dimension_);
    if (table_.momentum) {
      write_codes(table_.momentum, row.c,
                  {.stochastic = true, .key = key, .first_element = kMomentumElement},
                  scratch.momentum.data());
    }
  }
  inverse_norm_[row.c - first_] = inverse_of(squares);
}

void CentreRows::add_gradient(const ActiveRow& row, const CentreGradient& g, float* sum,
                              Scratch& scratch) const {
  kernels_.add_centre_gradient(kernel_precision_, describe(row, g, scratch), sum);
}

void CentreRows::settle(const ActiveRow& active, std::int32_t count, Scratch& scratch) const {
  if (active.missed == nullptr) return;
  CentreRow row = describe(active, {}, scratch);
  if (precision_ != CentrePrecision::kFp32) row.key = rounding_key(seed_, count, active.c);
  finish(active, kernels_.centre_settle(kernel_precision_, row), row.key, scratch);
  updated_[(active.c - first_) / sub_centres_] = count;
}

void CentreRows::compute_inverse_norm(std::int64_t c, Scratch& scratch) const {
  inverse_norm_[c - first_] =
      inverse_of(kernels_.centre_squares(kernel_precision_, weight_of(c, scratch), dimension_));
}

}  // namespace pfc
