// Batch norm with PReLU or residual, at the speed of memory.
#pragma once

#include <memory>

#include "kernels/cpu/runtime/cpu_device.h"

namespace pfc {

/// The device is borrowed.
std::unique_ptr<BatchNorm> make_batch_norm(CpuDevice& device, const BatchNormShape& shape);

}  // namespace pfc
