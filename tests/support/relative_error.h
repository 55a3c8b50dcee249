// Relative difference of two arrays.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace pfc {

/// Returns |got - want| / |want| over elements [begin, end) in float64; |.| is the L2 norm.
/// Infinite if all wanted elements are zero and some element is not.
template <typename A, typename B>
double relative_error_of_range(const std::vector<A>& got, const std::vector<B>& want,
                               std::size_t begin, std::size_t end) {
  // Divides by the largest number, so that squares neither overflow nor underflow for norms from
  // 1e-20 to 1e+20.
  double largest = 0;
  for (std::size_t i = begin; i < end; ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
  }
  double difference = 0;
  double length = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const auto a = static_cast<double>(got[i]);
    const auto b = static_cast<double>(want[i]);
    if (largest == 0 && a != 0) return std::numeric_limits<double>::infinity();
    if (largest == 0) continue;
    difference += (a - b) / largest * ((a - b) / largest);
    length += b / largest * (b / largest);
  }
  return largest == 0 ? 0.0 : std::sqrt(difference / length);
}

/// Returns relative_error_of_range() of all elements. Infinite if the sizes differ.
template <typename A, typename B>
double relative_error(const std::vector<A>& got, const std::vector<B>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  return relative_error_of_range(got, want, 0, want.size());
}

/// Returns the largest relative error of any row. Infinite if the sizes differ.
template <typename A, typename B>
double worst_row_error(const std::vector<A>& got, const std::vector<B>& want,
                       std::int64_t columns) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  const auto n = static_cast<std::size_t>(columns);
  double worst = 0;
  for (std::size_t begin = 0; begin + n <= want.size(); begin += n) {
    const double error = relative_error_of_range(got, want, begin, begin + n);
    if (!(error <= worst)) worst = error;  // not >, so that a NaN is kept
  }
  return worst;
}

}  // namespace pfc
