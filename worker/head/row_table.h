// A table of rows that lies in several places, one after the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/comm/shard.h"

namespace pfc {

/// Views of float32 values.
struct RowTable {
  std::int64_t columns = 0;
  std::vector<std::span<const float>> pieces;  ///< whole rows each

  /// Calls f(values, first_row) for each stretch of the rows, in order.
  template <typename F>
  void each_stretch(RowRange rows, const F& f) const {
    std::int64_t first = 0;
    for (const std::span<const float> piece : pieces) {
      const std::int64_t end = first + static_cast<std::int64_t>(piece.size()) / columns;
      const RowRange both{std::max(rows.begin, first), std::min(rows.end, end)};
      if (both.size() > 0) {
        f(piece.subspan(static_cast<std::size_t>((both.begin - first) * columns),
                        static_cast<std::size_t>(both.size() * columns)),
          both.begin);
      }
      first = end;
    }
  }
};

}  // namespace pfc
