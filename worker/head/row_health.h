// Statistics of a matrix, used to examine a step that went wrong: non-finite elements, and the
// lengths of the rows.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace pfc {

/// Collects the statistics of a matrix that is read row by row.
class RowHealth {
 public:
  explicit RowHealth(std::int64_t columns) : columns_(columns) {}

  /// Adds the next rows, in order. REQUIRES: whole rows of columns() values.
  void add(std::span<const float> rows);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] std::int64_t not_finite() const { return not_finite_; }    ///< number of elements
  [[nodiscard]] std::int64_t first_bad_row() const { return first_bad_; }  ///< its index; -1: none
  /// L2 lengths of the rows whose elements are all finite. If there is no such row, shortest() is
  /// infinite and longest() is 0.
  [[nodiscard]] double shortest() const { return shortest_; }
  [[nodiscard]] double longest() const { return longest_; }
  /// L2 norm of all elements; NaN or infinite if an element is not finite.
  [[nodiscard]] double norm() const;

 private:
  std::int64_t columns_;
  std::int64_t rows_ = 0;
  std::int64_t not_finite_ = 0;
  std::int64_t first_bad_ = -1;
  double shortest_ = std::numeric_limits<double>::infinity();
  double longest_ = 0;
  double squares_ = 0;
};

}  // namespace pfc
