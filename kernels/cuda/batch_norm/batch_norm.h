// Batch norm by own kernels: one read of each input a pass, the same bits every time.
#pragma once

#include <memory>

#include "kernels/cuda/runtime/device.h"
#include "kernels/ops.h"

namespace pfc {

/// The device is borrowed.
std::unique_ptr<BatchNorm> make_batch_norm(CudaDevice& device, const BatchNormShape& shape);

}  // namespace pfc
