// What CUDA provides to the rest of the project. Builds without CUDA compile absent.cc instead of
// the CUDA sources.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "kernels/device_info.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/ops.h"

namespace pfc {

/// Every GPU of this machine. Where there is none: one entry whose detail says why.
std::vector<DeviceInfo> cuda_devices();

struct CudaOptions {
  int index = 0;                        ///< which GPU
  DType activations = DType::kFloat32;  ///< or bfloat16, float16
  bool tf32 = false;                    ///< whether float32 products may round inputs to TF32
  bool graphs = true;                   ///< launch repeated work as CUDA graphs
  std::filesystem::path cache = {};  ///< folder that keeps measured choices of algorithms between
                                     ///< runs; empty: they are not kept
};

/// Throws InputError when the GPU cannot be used; the message says why in one line.
std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& options);

/// The margin softmax on a GPU (kernels/cuda/margin/). REQUIRES: ops is of make_cuda_ops(). ops and
/// the table's memory are borrowed. Throws InputError for a table of 2^31 rows or more.
std::unique_ptr<MarginSoftmax> make_cuda_margin_softmax(Ops& ops,
                                                        const MarginSoftmaxOptions& options,
                                                        const CentreTable& table);

/// $XDG_CACHE_HOME/pfc or ~/.cache/pfc; empty where neither variable is set.
std::filesystem::path default_cache_folder();

}  // namespace pfc
