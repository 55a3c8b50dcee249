// Makes the Ops of a device. Only this file selects between CPU and GPU.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/config/choices.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/ops.h"

namespace pfc {

struct DeviceOptions {
  DeviceChoice choice = DeviceChoice::kAuto;  ///< auto: CUDA if built and present, otherwise CPU
  int index = 0;                              ///< number of the GPU: the local rank
  int cpu_threads = 0;                        ///< 0: all cores that this process may use
  Precision precision = Precision::kFp32;     ///< of activations; not float16 on a CPU
  bool tf32 = false;                          ///< see CudaOptions
  bool cuda_graphs = true;
};

/// Returns the type of activations for this precision. REQUIRES: not kAuto.
DType activation_type(Precision precision);

/// Returns the precisions for which this machine's device has instructions, fastest first.
std::vector<Precision> precisions_of(DeviceChoice choice, int index);
/// Same for a CPU with or without bfloat16 instructions, and for a GPU (80: sm_80).
std::vector<Precision> precisions_of_cpu(bool bfloat16);
std::vector<Precision> precisions_of_gpu(int compute_capability);
/// Returns the precision for kAuto: the fastest that all of these devices support.
Precision fastest_of_all(std::span<const std::vector<Precision>> devices);

/// Throws InputError with a one-line reason if the requested device is not available, or if a CPU
/// lacks instructions for the precision. REQUIRES: the precision is not kAuto.
std::unique_ptr<Ops> make_ops(const DeviceOptions& options);

/// Makes the margin softmax on the device of `ops`. Borrows `ops` and the table's memory.
std::unique_ptr<MarginSoftmax> make_margin_softmax(Ops& ops, const MarginSoftmaxOptions& options,
                                                   const CentreTable& table);

}  // namespace pfc
