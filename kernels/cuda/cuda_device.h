// The CUDA side as the rest of kernels/ sees it: real where CUDA is built, absent.cc elsewhere.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "kernels/device_info.h"
#include "kernels/ops.h"

namespace pfc {

/// Every GPU of this machine; or one entry that says why there is none.
std::vector<DeviceInfo> cuda_devices();

/// index: which GPU; activations: float32, bfloat16 or float16. Throws InputError that says in one
/// line why it cannot be had. cache: a folder where what was measured about this kind of GPU is
/// kept between runs; empty: nowhere.
std::unique_ptr<Ops> make_cuda_ops(int index, DType activations,
                                   const std::filesystem::path& cache = {});

/// $XDG_CACHE_HOME/pfc or ~/.cache/pfc; empty where neither variable is set.
std::filesystem::path default_cache_folder();

}  // namespace pfc
