// The CUDA side as the rest of kernels/ sees it: real where CUDA is built, absent.cc elsewhere.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "kernels/device_info.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/ops.h"

namespace pfc {

/// Every GPU of this machine; or one entry that says why there is none.
std::vector<DeviceInfo> cuda_devices();

struct CudaOptions {
  int index = 0;                        ///< which GPU
  DType activations = DType::kFloat32;  ///< or bfloat16, float16
  bool tf32 = false;                    ///< may products of float32 round their inputs to TF32?
  bool graphs = true;                   ///< launch repeated work as CUDA graphs
  std::filesystem::path cache = {};     ///< a folder where what was measured about this kind of GPU
                                        ///< is kept between runs; empty: nowhere
};

/// Throws InputError that says in one line why the GPU cannot be had.
std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& options);

/// The margin softmax on a GPU (kernels/cuda/margin/). REQUIRES: ops is of make_cuda_ops(). ops and
/// the table's memory are borrowed. Throws InputError for a table of 2^31 rows or more.
std::unique_ptr<MarginSoftmax> make_cuda_margin_softmax(Ops& ops,
                                                        const MarginSoftmaxOptions& options,
                                                        const CentreTable& table);

/// $XDG_CACHE_HOME/pfc or ~/.cache/pfc; empty where neither variable is set.
std::filesystem::path default_cache_folder();

}  // namespace pfc
