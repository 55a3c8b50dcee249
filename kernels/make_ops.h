// Makes the Ops of a device. Only this file chooses between CPU and GPU.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/config/config.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/ops.h"

namespace pfc {

struct DeviceOptions {
  DeviceChoice choice = DeviceChoice::kAuto;  ///< auto: CUDA where built and present, else CPU
  int index = 0;                              ///< which GPU: the local rank
  int cpu_threads = 0;                        ///< 0: all cores that this process may use
  Precision precision = Precision::kFp32;     ///< of activations; a CPU has no float16
  bool tf32 = false;                          ///< see CudaOptions
  bool cuda_graphs = true;
};

/// The type of activations for this precision. REQUIRES: it is not kAuto.
DType activation_type(Precision precision);

/// The precisions in which this machine's device has instructions to compute, the fastest first.
std::vector<Precision> precisions_of(DeviceChoice choice, int index);
/// Those of a CPU with or without instructions for bfloat16, and of a GPU (80: sm_80).
std::vector<Precision> precisions_of_cpu(bool bfloat16);
std::vector<Precision> precisions_of_gpu(int compute_capability);
/// What kAuto stands for where the workers have these devices: the fastest that all of them have.
Precision fastest_of_all(std::span<const std::vector<Precision>> devices);

/// Throws InputError when the requested device is not available, or a CPU lacks instructions for
/// the precision; the message says why in one line. REQUIRES: the precision is not kAuto.
std::unique_ptr<Ops> make_ops(const DeviceOptions& options);

/// The margin softmax on the device of `ops`. Borrows `ops` and the table's memory.
std::unique_ptr<MarginSoftmax> make_margin_softmax(Ops& ops, const MarginSoftmaxOptions& options,
                                                   const CentreTable& table);

}  // namespace pfc
