// Copies rows of class centres or of their momentum between a device (in any type of a CentreTable)
// and host memory (in float32), and divides rows by their lengths.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/margin/scaled_rows.h"
#include "kernels/ops.h"

namespace pfc {

/// Returns how many rows of `columns` numbers to copy at a time: at most 4096 and 8 MiB.
constexpr std::int64_t rows_at_once(std::int64_t columns) {
  constexpr std::int64_t kRows = 4096, kNumbers = kRows * 512;
  return std::clamp(kNumbers / columns, std::int64_t{1}, kRows);
}

/// Returns a view of rows [begin, begin + count) of t [R, D].
Tensor row_range(const Tensor& t, std::int64_t begin, std::int64_t count);
/// Also returns the scales of these rows.
ScaledRows row_range(const ScaledRows& t, std::int64_t begin, std::int64_t count);

/// Copies float32 host values to rows, rounded to the nearest if rows is not float32. Values that
/// copy_rows_to_host() read from rows of this type get the same bits again. Waits for the copy.
void copy_rows_to_device(Ops& ops, const ScaledRows& rows, const float* host);
/// Copies rows to float32 host memory. Waits for the copy.
void copy_rows_to_host(Ops& ops, float* host, const ScaledRows& rows);

/// Divides a row by its length. Returns false, and does not change the row, if the length is 0 or
/// not finite.
bool normalise(std::span<float> row);

}  // namespace pfc
