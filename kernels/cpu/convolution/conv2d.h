// Convolutions through oneDNN.
#pragma once

#include <memory>

#include "kernels/cpu/runtime/cpu_device.h"

namespace pfc {

/// The device is borrowed. Throws std::logic_error for a shape without output.
std::unique_ptr<Conv2d> make_conv2d(CpuDevice& device, const Conv2dShape& shape);

}  // namespace pfc
