#include "worker/head/row_health.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"

namespace pfc {

void RowHealth::add(std::span<const float> rows) {
  const auto columns = static_cast<std::size_t>(columns_);
  check(rows.size() % columns == 0, "RowHealth: whole rows expected");
  for (; !rows.empty(); rows = rows.subspan(columns), ++rows_) {
    std::int64_t bad = 0;
    double squares = 0;  // in float64: 1e+38 squared fits
    for (const float x : rows.first(columns)) {
      bad += std::isfinite(x) ? 0 : 1;
      squares += double{x} * double{x};
    }
    squares_ += squares;
    if (bad == 0) {
      shortest_ = std::min(shortest_, std::sqrt(squares));
      longest_ = std::max(longest_, std::sqrt(squares));
    } else if (first_bad_ < 0) {
      first_bad_ = rows_;
    }
    not_finite_ += bad;
  }
}

double RowHealth::norm() const { return std::sqrt(squares_); }

}  // namespace pfc
