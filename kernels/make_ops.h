// Makes the Ops of a device. Only this file chooses between CPU and GPU.
#pragma once

#include <memory>
#include <string>

#include "common/config/config.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/ops.h"

namespace pfc {

struct DeviceOptions {
  DeviceChoice choice = DeviceChoice::kAuto;  ///< auto: CUDA where built and present, else CPU
  int index = 0;                              ///< which GPU: the local rank
  int cpu_threads = 0;                        ///< 0: all cores that this process may use
  Precision precision = Precision::kFp32;     ///< of activations; a CPU always uses float32
  bool tf32 = false;                          ///< see CudaOptions
  bool cuda_graphs = true;
};

/// The type of a GPU's activations for this precision.
DType activation_type(Precision precision);

/// Throws InputError when the requested device is not available; the message says why in one line.
std::unique_ptr<Ops> make_ops(const DeviceOptions& options);

/// The margin softmax on the device of `ops`. Borrows `ops` and the table's memory.
std::unique_ptr<MarginSoftmax> make_margin_softmax(Ops& ops, const MarginSoftmaxOptions& options,
                                                   const CentreTable& table);

}  // namespace pfc
