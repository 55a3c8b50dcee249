// What a person asks of a matrix after a step went wrong: is it finite, and how long are its rows?
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace pfc {

class RowHealth {
 public:
  explicit RowHealth(std::int64_t columns) : columns_(columns) {}

  /// The next rows, in order: whole ones.
  void add(std::span<const float> rows);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] std::int64_t not_finite() const { return not_finite_; }    ///< elements
  [[nodiscard]] std::int64_t first_bad_row() const { return first_bad_; }  ///< -1: none
  /// L2 lengths of the finite rows; shortest() is infinite when there is none.
  [[nodiscard]] double shortest() const { return shortest_; }
  [[nodiscard]] double longest() const { return longest_; }
  /// L2 norm of all elements; NaN or infinite when one of them is not finite.
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
