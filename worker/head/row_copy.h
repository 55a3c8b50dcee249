// Rows of class centres (or their momentum) between a device, where they may be bfloat16, and
// float32 in host memory.
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace pfc {

/// Rows [begin, begin + count) of t [R, D].
Tensor row_range(const Tensor& t, std::int64_t begin, std::int64_t count);

/// Rounds to the nearest where rows is bfloat16. Waits.
void copy_rows_to_device(Ops& ops, const Tensor& rows, const float* host);
void copy_rows_to_host(Ops& ops, float* host, const Tensor& rows);

}  // namespace pfc
