// Emulation of the part of NVIDIA's cuda_bf16.h that kernels/cuda uses.
#pragma once

#include <cstdint>

#include "kernels/math/bfloat16.h"

struct __nv_bfloat16 {
  std::uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 x) { return pfc::float_of(x.bits); }
inline __nv_bfloat16 __float2bfloat16(float x) { return {pfc::nearest_bfloat16(x)}; }
