#include "worker/cost/fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "common/error.h"

namespace pfc {
namespace {

using Matrix = std::vector<std::vector<double>>;

/// Solves a x = b for a symmetric positive definite matrix, by Gaussian elimination with pivoting.
/// Returns nullopt if the matrix is singular.
std::optional<std::vector<double>> solve(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    if (std::abs(a[pivot][column]) < 1e-12) return std::nullopt;
    std::swap(a[pivot], a[column]);
    std::swap(b[pivot], b[column]);
    for (std::size_t row = column + 1; row < n; ++row) {
      const double factor = a[row][column] / a[column][column];
      for (std::size_t k = column; k < n; ++k) a[row][k] -= factor * a[column][k];
      b[row] -= factor * b[column];
    }
  }
  std::vector<double> x(n);
  for (std::size_t i = n; i-- > 0;) {
    double sum = b[i];
    for (std::size_t k = i + 1; k < n; ++k) sum -= a[i][k] * x[k];
    x[i] = sum / a[i][i];
  }
  return x;
}

/// Rows divided by their times, and columns scaled to length 1: flops and seconds differ by 1e12.
struct Scaled {
  Matrix rows;
  std::vector<double> lengths;
};

Scaled scale(const std::vector<Measured>& measured) {
  const std::size_t n = measured.front().features.size();
  Scaled scaled{.rows = {}, .lengths = std::vector<double>(n, 0)};
  for (const Measured& m : measured) {
    check(m.features.size() == n && m.seconds > 0, "fit: features and seconds");
    std::vector<double>& row = scaled.rows.emplace_back();
    for (std::size_t k = 0; k < n; ++k) {
      row.push_back(m.features[k] / m.seconds);
      scaled.lengths[k] += row[k] * row[k];
    }
  }
  for (double& length : scaled.lengths) length = std::sqrt(length);
  for (std::vector<double>& row : scaled.rows) {
    for (std::size_t k = 0; k < n; ++k) row[k] /= std::max(scaled.lengths[k], 1e-300);
  }
  return scaled;
}

/// Solves least squares for the columns in `set`; nullopt if a coefficient would be negative.
std::optional<std::vector<double>> fit_columns(const Matrix& rows,
                                               const std::vector<std::size_t>& set, std::size_t n) {
  Matrix a(set.size(), std::vector<double>(set.size(), 0));
  std::vector<double> b(set.size(), 0);
  for (const std::vector<double>& row : rows) {
    for (std::size_t i = 0; i < set.size(); ++i) {
      b[i] += row[set[i]];
      for (std::size_t k = 0; k < set.size(); ++k) a[i][k] += row[set[i]] * row[set[k]];
    }
  }
  const auto solved = solve(a, b);
  if (!solved || std::ranges::any_of(*solved, [](double v) { return v < 0; })) return std::nullopt;
  std::vector<double> x(n, 0);
  for (std::size_t i = 0; i < set.size(); ++i) x[set[i]] = (*solved)[i];
  return x;
}

}  // namespace

std::vector<double> fit(const std::vector<Measured>& measured) {
  check(!measured.empty(), "fit: nothing was measured");
  const std::size_t n = measured.front().features.size();
  check(n >= 1 && n <= 8, "fit: from 1 to 8 features");
  const Scaled scaled = scale(measured);
  std::vector<double> best(n, 0);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t chosen = 1; chosen < std::size_t{1} << n; ++chosen) {
    std::vector<std::size_t> set;
    for (std::size_t k = 0; k < n; ++k) {
      if ((chosen >> k & 1) != 0 && scaled.lengths[k] > 0) set.push_back(k);
    }
    const auto x = set.empty() ? std::nullopt : fit_columns(scaled.rows, set, n);
    if (!x) continue;
    std::vector<double> found = *x;
    for (std::size_t k = 0; k < n; ++k) found[k] /= std::max(scaled.lengths[k], 1e-300);
    if (const double error = squared_error(measured, found); error < least) {
      least = error;
      best = std::move(found);
    }
  }
  return best;
}

double squared_error(const std::vector<Measured>& measured, const std::vector<double>& x) {
  double sum = 0;
  for (const Measured& m : measured) {
    double seconds = 0;
    for (std::size_t k = 0; k < x.size(); ++k) seconds += m.features[k] * x[k];
    const double off = seconds / m.seconds - 1;
    sum += off * off;
  }
  return sum;
}

}  // namespace pfc
