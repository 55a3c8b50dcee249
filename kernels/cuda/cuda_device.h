// Interface of the CUDA code to the rest of the project. Builds without CUDA compile absent.cc
// instead of the CUDA sources.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "kernels/device_info.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/ops.h"

namespace pfc {

/// Returns every GPU of this machine. If there is none, returns one entry whose detail gives the
/// reason.
std::vector<DeviceInfo> cuda_devices();

struct CudaOptions {
  int index = 0;                        ///< number of the GPU
  DType activations = DType::kFloat32;  ///< or bfloat16, float16
  bool tf32 = false;                    ///< float32 products may round inputs to TF32
  bool graphs = true;                   ///< launch repeated work as CUDA graphs
  std::filesystem::path cache = {};     ///< folder for measured algorithm choices; empty: none
};

/// Throws InputError with a one-line reason if the GPU cannot be used.
std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& options);

/// Makes the margin softmax on a GPU (kernels/cuda/margin/). REQUIRES: ops is from
/// make_cuda_ops(). Borrows ops and the table's memory. Throws InputError for a table of 2^31 rows
/// or more.
std::unique_ptr<MarginSoftmax> make_cuda_margin_softmax(Ops& ops,
                                                        const MarginSoftmaxOptions& options,
                                                        const CentreTable& table);

/// Returns $XDG_CACHE_HOME/pfc or ~/.cache/pfc; empty if neither variable is set.
std::filesystem::path default_cache_folder();

}  // namespace pfc
