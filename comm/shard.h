// Computes which rows of a table a worker owns. Class centres are sharded by class this way.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/error.h"

namespace pfc {

/// Rows [begin, end) of a table.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  [[nodiscard]] bool contains(std::int64_t row) const { return row >= begin && row < end; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

/// Returns the rows that are in both ranges; size() is 0 or negative if there are none.
inline RowRange common_rows(RowRange a, RowRange b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// Returns the number of blocks of `unit` rows. The last block may have fewer.
inline std::int64_t blocks_of(std::int64_t rows, std::int64_t unit) {
  return (rows + unit - 1) / unit;
}

/// Returns the rows of worker `rank`. It owns blocks / world_size + (rank < blocks mod world_size)
/// blocks of `unit` rows, starting at block blocks / world_size * rank + min(rank, blocks mod
/// world_size). No rank owns more rows than rank 0.
inline RowRange shard_of(std::int64_t rows, int rank, int world_size, std::int64_t unit = 1) {
  check(rows >= 0 && world_size > 0 && rank >= 0 && rank < world_size && unit > 0,
        "shard_of: out of range");
  const std::int64_t blocks = blocks_of(rows, unit);
  const std::int64_t quotient = blocks / world_size;
  const std::int64_t remainder = blocks % world_size;
  const std::int64_t begin = quotient * rank + std::min<std::int64_t>(rank, remainder);
  const std::int64_t end = begin + quotient + (rank < remainder ? 1 : 0);
  return {std::min(begin * unit, rows), std::min(end * unit, rows)};
}

}  // namespace pfc
