// The one place that chooses a device.
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
  Precision precision = Precision::kFp32;     ///< of a GPU's activations
  bool tf32 = false;                          ///< see CudaOptions
  bool cuda_graphs = true;
};

/// Of a GPU's activations.
DType activation_type(Precision precision);

/// Throws InputError when the device that was asked for is not there, and says why in one line.
std::unique_ptr<Ops> make_ops(const DeviceOptions& options);

/// The margin softmax on the device of `ops`. `ops` and the table's memory are borrowed.
std::unique_ptr<MarginSoftmax> make_margin_softmax(Ops& ops, const MarginSoftmaxOptions& options,
                                                   const CentreTable& table);

}  // namespace pfc
